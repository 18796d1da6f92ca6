"""What the workspace is sent says what the session's run says, and asks come back through the page as they should."""

import json

import numpy as np
import pytest

from miniinfer.figures.payload import unpack
from miniinfer.figures.workspace import Selection
from miniinfer.trace.pooling import to_u8
from miniinfer.ui.ask import MAX_DETAILS
from tests.ui.waiting import wait_until


def step(app, number, **fields):
    """One click on "step": ask until the step exists, as the browser does on a slow machine."""
    run = app.session.timeline.current
    wait_until(lambda: bool(app.ask(n=number, run=run.info.run_id, want=number, cursor=number, **fields)) and
               len(run.steps) >= number)  # fmt: skip
    return app.message


def test_the_first_message_of_a_live_run_holds_all_that_is_needed_to_paint(app):
    header, blobs = app.message
    run = app.session.timeline.current
    assert (header["v"], header["error"], header["ask"]) == (1, None, 0)
    assert (header["run"]["id"], header["last"], header["cursor"]) == ("r1", 1, 1)
    assert header["model"] == {"state": "ready", "text": "SmolLM2-135M-Instruct is ready.", "progress": 1.0}
    assert [t[:2] for t in header["tokens"]] == [[t.token_id, t.text] for t in run.tokens]
    assert bytes.fromhex("".join(t[2] for t in header["tokens"])) == b"The capital of France is Paris"
    assert header["run"]["default_head"] == list(run.info.default_head)
    np.testing.assert_array_equal(blobs["rows:1"], run.rows_at(4))
    np.testing.assert_array_equal(blobs["head"], run.head_rows(*run.info.default_head, 0, 5))
    np.testing.assert_array_equal(blobs["kv"], run.kv_norms(0))
    np.testing.assert_array_equal(blobs["maps:1"], run.pooled_maps(1).maps)
    assert set(header["source"].values()) == {"measured", "computed"}
    assert "recorded" not in json.dumps(header)
    facts = header["run"]
    config = app.session.model.config
    for name in ("num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "vocab_size", "context_length"):
        assert facts[name] == getattr(config, name)
    assert facts["weight_bytes"] == app.session.model.weight_bytes
    assert facts["params"]["seed"] == "0"


def test_before_the_model_every_figure_says_recorded(open_app, gate):
    app = open_app(gate.host).run()
    header, blobs = app.message
    assert (header["run"]["kind"], header["cursor"], header["last"]) == ("recorded", 1, 32)
    assert set(header["source"].values()) == {"recorded"}
    assert header["model"]["state"] == "loading"
    assert blobs["rows:1"].shape == (30, 9, 5)
    app.ask(n=1, run="example", want=4, cursor=4, have={"meta": 32, "tok": 37, "kv": 36}, details=[4])
    header, blobs = app.message
    assert (header["cursor"], header["meta"], header["tokens"]) == (4, [], [])
    assert set(blobs) == {"rows:4"}


def test_the_example_goes_live_whichever_run_notices_that_the_model_is_ready(open_app, gate):
    app = open_app(gate.host).run()
    app.ask(n=1, run="example", want=3, cursor=3)
    gate.open()
    app.run()  # a click elsewhere, before the frame looks again by itself
    header, _ = app.message
    assert (header["run"]["kind"], header["cursor"], header["last"]) == ("live", 3, 3)
    assert not app.polls


def test_the_frame_notices_by_itself_that_the_model_is_ready(open_app, gate):
    app = open_app(gate.host).run()
    app.tick()
    assert app.message[0]["run"]["kind"] == "recorded"
    gate.open()
    app.tick()
    assert app.message[0]["run"]["kind"] == "live"
    assert app.transport["model"]["state"] == "ready"
    assert not app.polls


def test_a_step_answers_with_its_own_part_only(app):
    step(app, 2)
    header, blobs = step(
        app, 3, have={"meta": 2, "tok": 7, "kv": 6}, details=[3], head=[13, 8, 6, 99], exact=[13, 8, None]
    )
    run = app.session.timeline.current
    assert header["ask"] == 3
    assert [m["step"] for m in header["meta"]] == [3]
    assert (header["tok_from"], [t[0] for t in header["tokens"]]) == (7, [run.tokens[7].token_id])
    assert header["kv_from"] == 6
    assert {name: blob.shape for name, blob in blobs.items()} == {
        "kv": (1, 30, 2), "rows:3": (30, 9, 7), "head": (7,), "exact": (7,),
    }  # fmt: skip
    assert app.message_bytes < 12_000
    assert header["exact"] == {"layer": 13, "head": 8, "at": [6]}
    assert blobs["exact"].sum() == pytest.approx(1, abs=1e-5), "float32, not 8 bits"
    np.testing.assert_array_equal(to_u8(blobs["exact"]), blobs["rows:3"][13, 8])
    meta = header["meta"][0]
    mine = run.steps[2]
    assert (meta["phase"], meta["n"], meta["ctx"], meta["token"]) == ("decode", 1, 7, mine.token_id)
    assert meta["ms"] == round(mine.step_ms, 3)
    assert sum(meta["stages"].values()) == pytest.approx(mine.step_ms, abs=0.01)


def test_going_back_and_looking_at_a_prompt_position_runs_no_step(app, monkeypatch):
    step(app, 3)
    engine = app.session._engine

    def refuse(*args, **kwargs):
        raise AssertionError("looking back must not run the model")

    monkeypatch.setattr(engine, "advance", refuse)
    have = {"meta": 3, "tok": 8, "kv": 7}
    app.ask(n=4, run="r1", want=1, cursor=1, have=have, details=[1], row=2, probs=0)
    header, blobs = app.message
    assert (header["cursor"], header["last"], header["error"]) == (1, 3, None)
    assert header["row"]["pos"] == 2
    assert header["row"]["next"]["token"] is None, "nothing was drawn there"
    assert blobs["row"].shape == (30, 9, 3)
    assert np.isnan(blobs["probs"][0])
    assert len(blobs["probs"]) == 8
    app.ask(n=5, run="r1", cursor=0, have=have)
    assert app.message[0]["cursor"] == 0


def test_forcing_a_candidate_answers_with_the_whole_branch(app):
    step(app, 3)
    have = {"meta": 3, "tok": 8, "kv": 7}
    token = app.session.timeline.current.next_token(2).tokens[1]
    app.ask(n=4, run="r1", have=have, force={"step": 2, "token": token.token_id})
    header, blobs = app.message
    assert (header["ask"], header["error"]) == (4, None)
    assert (header["run"]["id"], header["run"]["parent"], header["run"]["fork_step"]) == ("r2", "r1", 2)
    assert (header["last"], header["cursor"]) == (2, 2)
    assert (header["meta_from"], len(header["meta"]), header["tok_from"], header["kv_from"]) == (1, 2, 0, 0)
    assert header["tokens"][-1][:2] == [token.token_id, token.text]
    shown = header["details"]["2"]["next"]
    assert (shown["token"], shown["forced"]) == (token.token_id, True)
    assert blobs["rows:2"].shape == (30, 9, 6)
    app.ask(n=5, open="r1")
    header, _ = app.message
    assert (header["run"]["id"], header["cursor"], header["meta_from"], len(header["meta"])) == ("r1", 3, 1, 3)


@pytest.mark.parametrize(
    "value",
    [
        0, "x", [], {}, {"n": "1", "run": {"a": 1}}, {"run": "r1", "want": -1, "cursor": 1e9, "details": {"a": 1}},
        {"run": "r1", "head": [99, 99, 99], "row": 10**9, "probs": 10**9, "details": [10**9] * 100},
        {"run": "r1", "force": {"step": 1, "token": 2**31 - 1}}, {"open": "<img src=x onerror=alert(1)>"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("full", [False, True])
def test_a_hostile_ask_is_answered_and_changes_nothing(app, value, full):
    before = [t.token_id for t in app.session.timeline.current.tokens]
    app.send("workspace", value, full=full)
    header, _ = app.message
    assert (header["run"]["id"], header["last"]) == ("r1", 1)
    assert [t[0] for t in header["tokens"]] in (before, [])
    assert len(header.get("details", {})) <= MAX_DETAILS


def test_every_number_of_the_kv_part_is_that_of_the_engines_storage(app):
    """KV-13. The prompt of 14 tokens takes one block; the third step opens a second one."""
    app.fill(prompt="one two three four five six seven eight nine ten eleven twelve 1 2")
    app.press("New run")
    run, cache = app.session.timeline.current, app.session._engine.kv_cache
    header, blobs = app.message
    assert (header["last"], "kv" in blobs) == (0, False), "nothing is in the cache before the first step"
    prompt = run.info.num_prompt_tokens
    for number in (1, 2, 3, 4):
        header, blobs = step(app, number, have={"meta": 0, "tok": 0, "kv": 0})
        meta = header["meta"][-1]
        data, table = cache.data, run.seq.block_table
        held = data[:, :, :, table].flatten(3, 4)  # [L, 2, K, positions of the blocks, D]
        used = held[:, :, :, : meta["ctx"]]
        assert meta["ctx"] == run.seq.num_computed_tokens == prompt + number - 1
        assert meta["kv_used"] == used.numel() * used.itemsize == meta["ctx"] * 2 * 30 * 3 * 64 * 4
        assert meta["kv_alloc"] == held.numel() * held.itemsize == len(table) * header["run"]["block_size"] * 46_080
        assert meta["kv_reserved"] == data.untyped_storage().nbytes()
        assert meta["kv_used"] <= meta["kv_alloc"] <= meta["kv_reserved"]
        assert meta["kv_read"] == meta["kv_used"], "attention reads all that is there, the new position included"
        norms = used.double().square().sum((2, 4)).sqrt().permute(2, 0, 1)  # [positions, L, 2]
        np.testing.assert_allclose(blobs["kv"], norms.numpy(), rtol=1e-5)
    assert len(table) == 2
    facts = header["run"]
    per_token = 2 * facts["num_layers"] * facts["num_kv_heads"] * facts["head_dim"] * facts["itemsize"]
    assert per_token == 46_080, "the factors that the panel names give the bytes of one position"


def test_the_attention_sent_is_softmax_of_the_storage(app):
    """The rows of the newest position, worked out again from kept queries and the keys in the cache, in float64."""
    step(app, 2)
    header, blobs = step(app, 3, details=[3])
    run, cache = app.session.timeline.current, app.session._engine.kv_cache
    keys = cache.data[:, 0][:, :, run.seq.block_table].flatten(2, 3)[:, :, :7].double()  # [L, K, C, D]
    q = np.array(run.records[2].sequences[0].q[:, 0], np.float64).reshape(30, 3, 3, 64)  # [L, K, G, D]
    scores = np.einsum("lkgd,lkcd->lkgc", q, keys.numpy()) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.rint(255 * np.sqrt(weights)).reshape(30, 9, 7)
    np.testing.assert_allclose(blobs["rows:3"].astype(int), expected, atol=1)
    assert header["details"]["3"]["next"]["token"] == run.steps[2].token_id


def test_raw_and_used_probabilities_are_those_of_the_draw(app):
    """SMP-09: two columns that each sum to 1 with the rest, and the coin lies on the drawn token's part of the bar."""
    for number in (2, 3, 4):
        step(app, number)
    run = app.session.timeline.current
    header, _ = unpack(app.session.message(Selection(details=(1, 2, 3, 4))))
    for meta in run.steps:
        shown = header["details"][str(meta.step)]["next"]
        logits = run.logits_at(meta.context_len - 1).double()
        raw = logits.softmax(-1)
        hot = (logits / 0.8).softmax(-1)
        order = hot.argsort(descending=True, stable=True)
        kept = order[: int((hot[order].cumsum(0) < 0.95).sum()) + 1]
        used = {int(i): float(hot[i] / hot[kept].sum()) for i in kept}
        assert shown["kept"] == len(kept)
        assert shown["raw"] == pytest.approx([float(raw[i]) for i in shown["ids"]], abs=1e-5)
        assert shown["used"] == pytest.approx([used.get(i, 0.0) for i in shown["ids"]], abs=1e-5)
        assert [c is None for c in shown["cut"]] == [i in used for i in shown["ids"]]
        assert set(shown["cut"]) <= {None, "top_p"}
        assert sum(shown["raw"]) + shown["rest"]["raw"] == pytest.approx(1, abs=1e-4)
        assert sum(shown["used"]) + shown["rest"]["used"] == pytest.approx(1, abs=1e-4)
        assert shown["rest"]["count"] + len(shown["ids"]) == 49152
        assert shown["token"] == meta.token_id in shown["ids"]
        assert shown["lo"] <= shown["coin"] < shown["hi"]
        assert shown["hi"] - shown["lo"] == pytest.approx(used[meta.token_id], abs=1e-5)
        assert meta.logprob == pytest.approx(np.log(used[meta.token_id]), abs=1e-4)


def test_equal_tokens_are_positions_of_their_own(app):
    """UI-01: everything is sent by position, never by text."""
    app.fill(prompt="the the the")
    app.press("New run")
    header, blobs = step(app, 1, details=[1], head=[0, 0, 0, 99])
    assert [t[0] for t in header["tokens"][:3]] == [1195, 260, 260]
    assert blobs["rows:1"].shape == (30, 9, 3)
    assert len(blobs["head"]) == 1 + 2 + 3
    assert blobs["kv"].shape == (3, 30, 2)


def test_a_full_run_of_the_page_sends_everything_again(app):
    step(app, 3, have={"meta": 2, "tok": 7, "kv": 6})
    app.open("compare").open("workspace")
    header, blobs = app.message
    assert (header["cursor"], header["meta_from"], len(header["meta"]), header["tok_from"]) == (3, 1, 3, 0)
    assert set(blobs) == {"kv", "rows:3", "head", "exact"}


def test_a_long_prompts_first_message_stays_below_a_megabyte(app):
    app.fill(prompt=" ".join(["word"] * 500))
    app.press("New run")
    step(app, 1, details=[1], head=[0, 0, 0, 99])
    header, blobs = app.message
    assert header["meta"][0]["n"] == 500
    assert blobs["maps:1"].shape == (30, 9, 24, 24)
    assert app.message_bytes < 2**20
