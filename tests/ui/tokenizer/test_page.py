"""The tokenizer page, run in process: its text, its views, and numbers that equal the tokenizer's and the engine's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from miniinfer.config import SamplingParams
from miniinfer.models.registry import MODELS
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.ui.tokenizer import look as tokenizer_look
from tests.models.tiny_files import write_folder
from tests.ui.app_test import MARKUP, App

VIEWS = ["Stages", "Segments", "Characters", "Languages", "Look up", "Compare", "Embedding"]
HOSTILE = "<img src=x onerror=alert(1)> **x** :material/home: $a$ `b`"


def show(app: App, view: str, text: str | None = None, **state: Any) -> App:
    app.test.session_state["tokenizer_view"] = view
    for name, value in state.items():
        app.test.session_state[f"tokenizer_{name}"] = value
    if text is not None:
        app.test.text_area(key="tokenizer_text").set_value(text)
    return app.run()


@pytest.fixture
def page(app: App) -> App:
    return app.open("tokenizer")


def texts(app: App) -> str:
    return "\n".join(t.value for t in app.test.text)


def frames(app: App) -> list[pd.DataFrame]:
    return [element.value for element in app.test.dataframe]


def plots(app: App) -> list[dict[str, Any]]:
    return [message["figure"] for message in app.figures.values()]


def message(app: App, key: str = "tokenizer_stages") -> dict[str, Any]:
    found = {element.key: element.proto for element in app.test.get("bidi_component")}
    return json.loads(found[key].json)


def ids(app: App, strip: int = 0, key: str = "tokenizer_stages") -> list[int]:
    return [token[0] for token in message(app, key)["strips"][strip]["tokens"]]


def tokenizer(app: App) -> Tokenizer:
    assert app.session.model is not None
    return app.session.model.tokenizer


def error(app: App) -> str:
    return "\n".join(app.texts("tokenizer_error"))


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_at_most_two_plots_and_a_table(page: App, view: str) -> None:
    show(page, view, second="", tables=True, costs_fold=True, embedding_fold=True, found_fold=True)
    assert len(plots(page)) == {"Languages": 1, "Embedding": 2}.get(view, 0)
    assert error(page) == ""
    assert len(frames(page)) > 0 or view == "Compare"


@pytest.mark.parametrize("chat", [False, True])
def test_it_shows_the_ids_that_the_run_was_fed(app: App, chat: bool) -> None:
    prompt = "naïve <|im_end|> 東京 " if not chat else "Hi<|im_end|>\n"
    app.session.new_run(prompt, SamplingParams(max_new_tokens=2), chat=chat, one_pass=True)
    show(app.open("tokenizer"), "Stages", tables=True)
    run = app.session.timeline.current
    assert run is not None
    assert ids(app) == [t.token_id for t in run.tokens]  # nothing is generated yet: these are the prompt's
    assert app.test.text_area(key="tokenizer_text").value == prompt
    table = frames(app)[0]
    assert table["id"].tolist() == ids(app)
    assert set(table["written by"]) == ({"control", "template", "typed"} if chat else {"typed", "control"})


def test_the_text_can_be_changed_without_touching_a_run_and_follows_a_new_one(page: App) -> None:
    session = page.session
    before = session.timeline.current
    assert before is not None
    tokens = list(before.tokens)
    show(page, "Stages", "Hello world")
    assert ids(page) == [19556, 905]
    assert (session.timeline.current, list(before.tokens), len(session.timeline)) == (before, tokens, 1)
    session.new_run("a new one", SamplingParams(max_new_tokens=2), chat=False, one_pass=True)
    page.run()
    assert ids(page) == [19556, 905], "a text of the user's own stays"
    page.test.button(key="tokenizer_reset").click()
    page.run()
    assert ids(page) == tokenizer(page).encode("a new one", parse_special=True)
    session.new_run("and another", SamplingParams(max_new_tokens=2), chat=False, one_pass=True)
    page.run()
    assert ids(page) == tokenizer(page).encode("and another", parse_special=True), "an untouched prompt is replaced"


def test_escapes_and_hard_texts(page: App) -> None:
    show(page, "Stages", r"a\r\nb")
    assert ids(page) == tokenizer(page).encode(r"a\r\nb", parse_special=False)
    page.test.toggle(key="tokenizer_escapes").set_value(True)
    page.run()
    assert ids(page) == [81, 201, 198, 82]
    assert any("not made equal" in c.value for c in page.test.caption)
    page.test.selectbox(key="tokenizer_sample").set_value("A control token, spelled")
    page.run()
    assert ids(page) == [49, 2, 50]
    page.test.toggle(key="tokenizer_special").set_value(False)
    page.run()
    assert ids(page) == [49, 44, 108, 306, 79, 486, 108, 46, 50]


def test_what_cannot_be_encoded_is_a_sentence(page: App) -> None:
    show(page, "Stages", r"a\x04b", escapes=True)
    assert "no token for the character U+0004" in error(page)
    show(page, "Stages", r"a\ud800")
    assert "half of a pair" in error(page)
    show(page, "Stages", "a" * 100_001)
    assert "at most 100,000 fit here" in error(page)
    show(page, "Embedding", "")
    assert "has no tokens" in error(page)
    show(page, "Stages", "ok")
    assert error(page) == ""


def test_the_message_has_the_merges_of_the_vocabulary(page: App) -> None:
    show(page, "Stages", " capital")
    (piece,) = message(page)["pieces"]
    merges = tokenizer(page).vocabulary.merges
    assert piece[3] == "Ġcapital"
    assert merges[piece[7][-1][0]] == ("Ġcap", "ital")
    show(page, "Stages", tables=True, table="Merges")
    table = frames(page)[0]
    assert table["rank"].tolist() == [step[0] for step in piece[7]]


def test_a_token_is_found_by_text_id_and_bytes(page: App) -> None:
    for by, query, found in (("text", "London", None), ("id", "504", 504), ("bytes", "F0 9F", 10813)):
        show(page, "Look up", **{"by": by, f"query_{by}": query})
        table = frames(page)[0]
        assert table["id"].iloc[0] == (found or tokenizer(page).encode("London", parse_special=False)[0])
    show(page, "Look up", by="bytes", query_bytes="xyz")
    assert any("No token holds these bytes" in c.value for c in page.test.caption)
    show(page, "Look up", by="id", query_id="504 49152 -1 123456789012345")
    assert frames(page)[0]["id"].tolist() == [504]
    told = "\n".join(c.value for c in page.test.caption)
    assert "1 token fits. Ids run from 0 to 49,151: there is no 49152 and no -1 and no 12345678901…." in told
    show(page, "Look up", by="id", query_id="49152")
    assert any("No token has such an id: they run from 0 to 49,151." in c.value for c in page.test.caption)


def test_a_table_that_is_cut_says_so_and_what_is_saved_is_not(page: App) -> None:
    with patch.object(tokenizer_look, "MOST_ROWS", 3):
        show(page, "Characters", "abcdef")
    assert any("The first 3 of 6 rows stand here" in c.value for c in page.test.caption)
    assert frames(page)[0]["sign"].tolist() == ["a", "b", "c"]
    with patch.object(tokenizer_look, "draw_table_twin") as twin:
        show(page, "Characters", "abcdef")
    assert twin.call_args.kwargs["csv"]()["sign"].tolist() == list("abcdef")


def test_a_second_tokenizer_stands_beside_the_first_and_refusals_are_sentences(page: App, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    second, _ = load_tokenizer(folder)
    path = str(folder / "tokenizer.json")
    show(page, "Compare", "hello the 🙂", second=path)
    assert ids(page, 0, "tokenizer_compare") == tokenizer(page).encode("hello the 🙂", parse_special=False)
    assert ids(page, 1, "tokenizer_compare") == second.encode("hello the 🙂", parse_special=False)
    table = frames(page)[0]
    assert table["from byte"].tolist()[1:] == table["to byte"].tolist()[:-1]
    assert table["to byte"].iloc[-1] == len("hello the 🙂".encode())
    show(page, "Compare", second=str(folder))
    Path(path).write_text(json.dumps(json.loads(Path(path).read_text()) | {"normalizer": {"type": "NFC"}}))
    page.run()  # the folder itself is as old as before
    assert "changes every text first" in error(page)
    for nothing in (str(tmp_path / "none.json"), "x" * 5000, "~nobody-of-that-name/tokenizer.json"):
        show(page, "Compare", second=nothing)
        assert "There is no file or folder" in error(page)
        assert len(error(page)) < 200


def test_the_embedding_view_shows_the_engines_rows(page: App) -> None:
    show(page, "Embedding", "The capital of France is", position=1, embedding_fold=True)
    model = page.session.model
    assert model is not None
    import torch

    rows = model.weights.embedding(torch.tensor([504, 3575, 282, 4649, 314])).numpy()
    norms, values, nearest, both = frames(page)
    assert np.array_equal(values.iloc[:, 3:].to_numpy(np.float32), rows)
    assert np.allclose(norms["norm"], np.linalg.norm(rows, axis=1), rtol=1e-6)
    assert nearest["token"].iloc[0] == "␣Capital"
    assert np.array_equal(both["embedding"].to_numpy(np.float32), rows[1])
    assert (both["difference"] == 0).all()
    assert "49,152 of 49,152 rows are equal to the last bit" in texts(page)
    run = page.session.timeline.current
    assert run is not None
    logit = float(page.session.look([run], lambda: run.logits_at(4))[7042])  # type: ignore[attr-defined]
    assert f"chose “␣Paris” with the logit {logit:.4f}" in texts(page)


def test_hostile_texts_are_never_markup(page: App) -> None:
    for view in VIEWS:
        show(page, view, HOSTILE)
        for kind in MARKUP:
            for element in page.test.get(kind):
                assert "img" not in str(element.value), (view, kind)
        for spec in plots(page):
            assert "<img" not in json.dumps(spec)


def test_the_tokenizer_works_while_the_weights_are_loading(open_app: Callable[..., App], gate: Any) -> None:
    app = open_app(gate.host).open_first("tokenizer")
    assert ids(app) == [504, 3575, 282, 4649, 314]
    show(app, "Embedding")
    assert "are being loaded" in texts(app)
    assert plots(app) == []


def test_before_the_file_is_there_the_page_says_what_it_waits_for(
    open_app: Callable[..., App], gate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    with patch("miniinfer.models.loader.load_model", gate.load):
        app = open_app(gate.host).open_first("tokenizer")
    assert not next(iter(MODELS.values())).path.exists()
    assert "lies in the model's file, which is not there yet" in texts(app)
