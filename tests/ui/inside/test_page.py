"""The page "Inside a step", run in process: its numbers are the engine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from miniinfer.config import SamplingParams
from tests.ui.app_test import App
from tests.ui.inside.page import (
    HOSTILE,
    PROMPT,
    VIEWS,
    array,
    current,
    frame,
    goto,
    inside,
    own_step,
    plots,
    program,
    show,
    texts,
)


def test_each_view_has_at_most_two_plots_and_a_table(app: App) -> None:
    inside(app)
    for view in VIEWS:
        show(app, view)
        assert not app.texts("inside_error")
        assert len(plots(app)) == (0 if view == "Checks" else 2), view
        assert len(app.test.dataframe) > 0, view


def test_it_opens_where_the_residual_stream_begins(app: App) -> None:
    inside(app)
    data = program(app)
    assert (data["pc"], data["total"], data["layers"], data["step"]) == (3, 344, 30, 1)
    assert "Look up the vector of each token: the residual stream begins." in texts(app)
    assert app.test.latex[0].value.count("W_E") == 1
    code = app.test.code[0].value
    assert "def embed(engine: Engine, state: StepState) -> None:" in code
    assert "▸" in code


@pytest.mark.parametrize(("step", "pc", "name"), [(1, 3, "resid_pre"), (1, 14, "resid_post"), (2, 132, "resid_mid")])
def test_the_numbers_on_the_page_are_the_engines(app: App, step: int, pc: int, name: str) -> None:
    inside(app, step)
    expected = own_step(app, step)[pc - 1][name].numpy()  # [T, E]
    app.test.session_state["inside_field_name"] = name
    goto(app, pc)
    corner = frame(app, "position", "0")
    assert np.array_equal(corner.iloc[:, 1:].to_numpy().astype(np.float32), expected[-5:, :4])
    stats = next(t for t in app.texts("inside_values") if name in t)
    assert f"norm {np.linalg.norm(expected.astype(np.float64)):.4g}" in stats
    assert stats.endswith("all finite")
    cells = array(plots(app)[0]["data"][0]["z"])
    if step == 1:
        wide = expected[:, :575].reshape(5, 115, 5)  # a cell is the largest in size of five
        picked = np.take_along_axis(wide, np.abs(wide).argmax(-1)[..., None], -1)[..., 0]
        assert np.array_equal(cells[:, :115], picked)
        assert np.array_equal(cells[:, 115], expected[:, 575])
    else:
        assert np.array_equal(cells.ravel()[:576], expected[0])  # one row, folded
    assert array(plots(app)[1]["data"][0]["y"]).sum() == expected.size


def test_step_back_layer_and_a_click_in_the_map(app: App) -> None:
    inside(app)
    for pc, name in ((4, "attn_norm"), (14, "mlp_out"), (130, "attn_pattern"), (129, "attn_scores"), (344, "commit")):
        goto(app, pc)
        assert program(app)["pc"] == pc
        assert program(app)["names"][pc - 1] == name
        assert any(m.startswith("**") and m.endswith(f"{name}**") for m in app.marked_up)
    goto(app, 0)
    assert "Nothing has run yet." in texts(app)


def test_the_same_place_is_kept_when_the_cursor_moves(app: App) -> None:
    inside(app, 3)
    goto(app, 130)
    app.session.timeline.cursor = 2  # what the transport does; the page's own fragment is drawn in the browser tests
    app.run()
    data = program(app)
    assert (data["pc"], data["step"]) == (130, 2)
    app.session.timeline.cursor = 0
    app.run()
    assert program(app)["step"] == 1


def test_it_runs_to_a_breakpoint_and_says_why(app: App) -> None:
    inside(app)
    app.test.session_state["inside_break_norm"] = True
    app.test.session_state["inside_break_factor"] = 5.0
    app.test.session_state["inside_break_rows"] = True
    app.run()
    goto(app, 3, go="run")
    data = program(app)
    assert data["marked"] == data["pc"]
    assert data["names"][data["pc"] - 1] == "mlp_out"
    stopped = "\n".join(app.texts("inside_hit"))
    assert stopped.startswith("Stopped after layer ")
    assert "the norm of resid_post at position 0 went from" in stopped  # the first token's, which heads rest on
    app.test.session_state["inside_break_norm"] = False
    app.run()
    goto(app, 3, go="run")
    assert program(app)["pc"] == 344
    assert app.texts("inside_hit") == []


def test_an_ask_that_makes_no_sense_changes_nothing(app: App) -> None:
    inside(app)
    asks = (
        {"pc": -1}, {"pc": 345}, {"pc": "4"}, {"pc": None}, {"pc": 4.5}, {"pc": True}, {"pc": 4, "run": "r9"},
        {"pc": 4, "step": 9}, {}, {"pc": 2**80}, {"go": "run", "pc": 999},
    )  # fmt: skip
    for ask in asks:
        app.send("program", {"step": 1, "run": "r1", "n": 5} | ask, full=True)
        assert program(app)["pc"] == 3, ask
    for value in ([1, 2], None, "x"):
        app.send("program", value, full=True)
        assert program(app)["pc"] == 3, value


def test_a_logits_processor_is_called_by_its_name(app: App) -> None:
    run = current(app)
    app.session.new_run(PROMPT, SamplingParams(order=("temperature", "top_p")), chat=False, one_pass=True)
    assert current(app) is not run
    inside(app)
    goto(app, 336)
    assert "Here it is temperature." in texts(app)
    assert "temperature" in "\n".join(str(s) for box in app.test.selectbox for s in box.options)
    goto(app, 340)
    assert "This run's order has fewer processors" in texts(app)


def test_the_lens_agrees_with_the_run(app: App) -> None:
    inside(app, view="Logit lens")
    found = current(app).next_token(1)
    assert found is not None
    best = max(zip(found.raw_probs, found.tokens, strict=True), key=lambda pair: pair[0])
    words = texts(app)
    assert f"The last layer says “{best[1].text.replace(' ', '␣')}”" in words
    table = frame(app, "best token")
    assert len(table) == 31
    assert table["its probability"].iloc[-1] == pytest.approx(best[0], abs=1e-5)
    assert table["rank of the final token"].iloc[-1] == 1


def test_checks_pass_on_the_real_model(app: App) -> None:
    inside(app, view="Checks")
    assert "11 of 11 identities hold in 30 layers, on 5 rows." in texts(app)
    assert frame(app, "what must hold")[""].tolist() == ["✓"] * 11


def test_both_ways_agree_on_the_real_model(app: App) -> None:
    inside(app, 3, view="Prefill and decode")
    table = frame(app, "relative")
    assert table["relative"].max() < 1e-4
    assert "position 6 alone" in texts(app)


def test_a_recorded_run_says_what_to_do(open_app: Callable[..., App], gate: Any) -> None:
    app = open_app(gate.host).run()
    app.open("inside")
    assert "a recording does not hold the tensors inside its steps" in texts(app)
    assert "They can be entered as soon as the model is loaded" in texts(app)
    gate.open()
    app.tick()
    app.run()
    assert "recording" not in texts(app)
    assert program(app)["total"] == 344


def test_hostile_tokens_are_never_markup(app: App) -> None:
    app.session.new_run(HOSTILE, SamplingParams(max_new_tokens=3), chat=False, one_pass=True)
    inside(app)
    for view in VIEWS:
        show(app, view)
        for text in app.marked_up:
            assert "onerror" not in text
            assert "material/home" not in text
