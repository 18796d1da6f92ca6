"""The model page shows the load report and nothing else; choosing another model is said, and may fail, in the panel."""

from dataclasses import replace

import pytest

from miniinfer.errors import FetchError
from miniinfer.models.loader import load_model
from miniinfer.models.report import KeptMatrix
from miniinfer.ui.sessions.model_host import ModelKey
from miniinfer.ui.sessions.session import Session
from tests.ui.waiting import wait_until

MISSING = "/nowhere/<b>![x](http:--x)</b>.gguf"


def test_without_a_model_the_page_says_so(open_app, gate):
    app = open_app(gate.host).run()
    app.open("model")
    assert any("as soon as it is loaded" in text for text in app.texts())
    assert len(app.test.dataframe) == 0


def test_every_row_is_of_the_report(app):
    app.open("model")
    model = app.session.model
    report = model.report
    assert any(model.name in text and model.source.name in text for text in app.texts())
    types, memory, seconds, facts = (frame.value for frame in app.test.dataframe)
    assert dict(zip(types["type"], types["tensors"], strict=True)) == report.tensor_types
    assert dict(zip(memory["what"], memory["bytes"], strict=True)) == report.memory_bytes
    assert memory["bytes"].sum() == model.weight_bytes
    assert dict(zip(seconds["phase"], seconds["seconds"], strict=True)) == {
        phase: round(value, 3) for phase, value in report.seconds.items()
    }
    assert list(facts["fact"]) == [f.key for f in report.facts]
    assert set(facts["how"]) == {"read", "derived"}
    assert list(facts["from"]) == [f.why for f in report.facts]
    assert any("computed" in caption.value for caption in app.test.caption)


def test_packed_lists_every_matrix_and_why_some_fell_back(app, monkeypatch):
    report = app.session.model.report
    app.open("model")
    assert len(app.test.dataframe) == 4
    assert not any("4-bit blocks" in text for text in app.texts())
    kept = (
        KeptMatrix(("blk.0.ffn_down.weight",), ("Q4_1",), "4-bit blocks", 640, 0.002, ""),
        KeptMatrix(("a<b>.weight", "c.weight"), ("Q8_0", "Q4_1"), "float16", 2048, 0.0002, "Q8_0 has another scale"),
    )
    packed = replace(app.session.model, report=replace(report, kept=kept))
    monkeypatch.setattr(Session, "model", packed)
    app.run()
    said = "a<b>.weight + c.weight is kept as float16: Q8_0 has another scale."
    assert f"1 of 2 matrices keep the file's 4-bit blocks. {said}" in app.texts()
    table = app.test.dataframe[-1].value
    assert table["tensors"].tolist() == ["a<b>.weight + c.weight", "blk.0.ffn_down.weight"], "fallbacks first"
    assert table["in the file"].tolist() == ["Q8_0, Q4_1", "Q4_1"]
    assert table["why not blocks"].tolist() == ["Q8_0 has another scale", ""]
    assert table["difference %"].tolist() == [0.02, 0.2]
    assert table["bytes"].tolist() == [2048, 640]


def test_it_says_what_computes_new_runs(app, monkeypatch):
    monkeypatch.setenv("MINIINFER_NATIVE", "0")
    app.open("model")
    said = "Backend of new runs: torch (chosen by auto). The readable program, in torch: the reference. "
    assert said + "The compiled core is turned off by MINIINFER_NATIVE." in app.texts()
    app.session.backend = "graph"
    app.run()
    assert any(text.startswith("Backend of new runs: graph. The torch program,") for text in app.texts())
    assert any("Decode steps in reused memory: " in text for text in app.texts())
    app.session.backend = "native"
    app.run()
    assert "Backend native: The compiled core is turned off by MINIINFER_NATIVE." in app.texts()


@pytest.fixture
def truth(gate, model, monkeypatch):
    """The default model is given out at once; any other is really looked for."""
    monkeypatch.setattr(
        "miniinfer.models.loader.load_model",
        lambda source, **options: model if source is None else load_model(source, **options),
    )
    return gate.host


def test_a_model_that_is_not_there_is_a_sentence_and_the_runs_go_on(open_app, truth):
    app = open_app(truth).run()
    wait_until(lambda: truth.status(ModelKey()).state == "ready")
    app.run()
    app.fill(model_source=MISSING)
    app.press("Load")
    wait_until(lambda: truth.status(ModelKey(MISSING)).state == "failed")
    app.tick()
    sentence = app.texts("model_status")[0]
    assert MISSING in sentence
    assert not any("nowhere" in text for text in app.marked_up), "a file's name is text, not markup"
    assert app.button("New run").disabled
    app.ask(n=1, run="r1", want=2, cursor=2)
    assert app.message[0]["error"] is None
    assert app.message[0]["run"]["id"] == "r1"
    loads = truth.num_loads
    for _ in range(3):
        app.run()
    assert truth.status(ModelKey(MISSING)).state == "failed", "nothing is tried again by itself"
    app.fill(model_source="")
    app.press("Load")
    app.run()
    assert not app.button("New run").disabled
    assert truth.num_loads == loads, "the runs still hold the model, so it is there at once"
    assert [r["id"] for r in app.message[0]["runs"]] == ["r1"]


def test_when_the_first_load_fails_the_example_still_moves_and_load_tries_again(open_app, gate, model, monkeypatch):
    def refuse(*args, **options):
        raise FetchError("There is no network: plug it in.")

    monkeypatch.setattr("miniinfer.models.loader.load_model", refuse)
    app = open_app(gate.host).run()
    wait_until(lambda: gate.host.status(ModelKey()).state == "failed")
    app.tick()
    assert app.texts("model_status") == ["There is no network: plug it in."]
    assert app.transport["model"]["state"] == "failed"
    assert not app.polls
    app.ask(n=1, run="example", want=9, cursor=9)
    assert (app.message[0]["run"]["kind"], app.message[0]["cursor"]) == ("recorded", 9)
    for page in ("model", "compare", "workspace"):
        app.open(page)
        assert app.transport["model"]["state"] == "failed", "nothing is tried again by itself"
    monkeypatch.setattr("miniinfer.models.loader.load_model", lambda *args, **options: model)
    app.press("Load")
    wait_until(lambda: gate.host.status(ModelKey()).state == "ready")
    app.run()
    assert (app.message[0]["run"]["kind"], app.message[0]["cursor"]) == ("live", 9)


def test_runs_of_another_model_say_what_they_hold_and_can_be_let_go(open_app, gate, model, monkeypatch):
    monkeypatch.setattr(
        "miniinfer.models.loader.load_model",
        lambda source, **options: model if source is None else replace(model, name="other"),
    )
    app = open_app(gate.host).run()
    wait_until(lambda: gate.host.status(ModelKey()).state == "ready")
    app.run()
    app.open("model")
    assert not any("hold in memory" in text for text in app.texts()), "one model: nothing to say"
    app.fill(model_source="x.gguf")
    app.press("Load")
    wait_until(lambda: gate.host.status(ModelKey("x.gguf")).state == "ready")
    app.run().press("New run")
    app.open("model")
    sentence = next(text for text in app.texts() if "hold in memory" in text)
    assert f"{model.name} · CPU · float32 ({model.weight_bytes / 1e6:,.0f} MB" in sentence
    app.test.button(key="drop_other_models").click()
    app.run()
    assert [run.info.run_id for run in app.session.timeline] == ["r2"]
    assert app.session.held_models() == {}
