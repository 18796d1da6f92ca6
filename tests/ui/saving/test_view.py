"""While its model is being loaded, a saved run shows its own tokens, draws and times, and nothing that is made up."""

import math
from dataclasses import replace

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.ui.saving.view import saved_view
from miniinfer.ui.sessions.session import Session
from tests.ui.app_test import close_tab

SHORT = SamplingParams(max_new_tokens=6, seed=5)


def test_until_the_model_is_there_the_address_stays_and_a_sentence_says_so(app, open_app, gate):
    app.session.step_to(3, math.inf)
    run = app.session.timeline.current
    tokens, done = [t.text for t in run.tokens], [(m.step, m.token_id, m.coin, m.kv_used_bytes) for m in run.steps]
    address = {"s": app.session.keeper.token, "run": "r1", "step": "3"}
    close_tab()
    again = open_app(gate.host, **address).run()
    header, blobs = again.message
    assert header["run"]["kind"] == "saved"
    assert (header["run"]["id"], header["cursor"], header["last"]) == ("r1", 3, 3)
    assert [token[1] for token in header["tokens"]] == tokens, "its own tokens, before there is a model"
    assert [(m["step"], m["token"], m["coin"]) for m in header["meta"]] == [step[:3] for step in done]
    assert [m["kv_used"] for m in header["meta"]] == [step[-1] for step in done]
    assert {m["weights_read"] for m in header["meta"]} == {None}, "no engine has said"
    assert "details" not in header
    assert list(blobs) == ["kv"]
    assert blobs["kv"].size == 0
    assert set(header["source"].values()) == {"recorded"}
    assert (again.transport["run"], again.transport["cursor"], again.transport["kind"]) == ("r1", 3, "saved")
    assert "comes back as soon as its model, SmolLM2-135M-Instruct, is loaded" in header["note"]
    assert again.transport["comes_back"] == "r1"
    assert again.test.query_params == address
    again.ask(n=1, run="r1", cursor=2)
    assert again.message[0]["cursor"] == 2
    again.ask(n=2, run="r1", want=9, force={"step": 1, "token": 5})
    assert (again.message[0]["cursor"], again.message[0]["last"]) == (2, 3)
    gate.open()
    again.tick()
    again.run()
    header, _ = again.message
    assert header["run"]["kind"] == "live"
    assert (header["run"]["id"], header["cursor"], again.transport["comes_back"]) == ("r1", 2, None)
    assert [run.info.run_id for run in again.session.timeline] == ["r1"], "the example has gone"


def test_without_the_models_file_the_example_stands_in(host, saved_runs):
    session = Session(host, saved_runs)
    session.new_run("One", SHORT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    saved = {run.run_id: run for run in session.keeper._load(session.keeper.token)}["r1"]
    assert saved_view(replace(saved, model=replace(saved.model, source="/nowhere/model.gguf"))) is None
    assert saved_view(replace(saved, prompt_ids=(10**6,))) is None, "not of this vocabulary"
    there = saved_view(saved)
    assert [t.text for t in there.tokens] == [t.text for t in session.timeline.current.tokens]
    assert there.finish_reason is None
    with pytest.raises(BadInputError, match="comes back with the model"):
        there.next_token(1)
    session.close()
