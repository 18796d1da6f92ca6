"""What a live run says of its steps is what the steps saw; looking back runs no model; branches leave the trunk."""

import numpy as np
import pytest
import torch

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.engine.lookup import pattern_row
from miniinfer.errors import BadInputError
from miniinfer.trace import live_run as live
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.pooling import pool_rows, to_u8
from miniinfer.trace.run import ChangeParams, ForceToken
from tests.trace.live import PROMPT, finished_run, live_run


def watched(run):
    """Step to the end, keeping what each step's stages held: newest rows, logits, coin."""
    seen, rows, found = [], [], {}
    advance = run.engine.advance

    def spy(state, *, until=None, observer):
        def both(stage, state):
            observer(stage, state)
            if stage.name == "attn_pattern":
                rows.append(pattern_row(state, 0).clone())
            elif stage.name == "commit":
                found.update(logits=state.raw_logits, probs=state.probs, coins=state.coins, ids=state.token_ids)

        return advance(state, until=until, observer=both)

    run.engine.advance = spy
    while run.step():
        seen.append((torch.stack(rows), dict(found)))
        rows.clear()
    run.engine.advance = advance
    return seen


def test_rows_logits_and_draws_looked_up_equal_what_the_steps_saw():
    run = live_run()
    seen = watched(run)
    assert len(seen) == len(run.steps) == 12
    for meta, (rows, found) in zip(run.steps, seen, strict=True):
        position = meta.context_len - 1
        exact = meta.num_scheduled == 1  # bit-equal for the same shapes; a product over more rows may add otherwise
        np.testing.assert_allclose(run.rows_at(position), to_u8(rows.numpy()), atol=0 if exact else 1)
        np.testing.assert_allclose(run.exact_row(2, 4, position), rows[2, 4], atol=0 if exact else 1e-6)
        logits = run.logits_at(position)
        torch.testing.assert_close(logits, found["logits"][0], rtol=0, atol=0 if exact else 1e-4)
        shown = run.next_token(meta.step)
        assert shown is not None
        assert shown.token_id == meta.token_id == found["ids"][0]
        assert shown.coin == found["coins"][0]
        assert shown.lo <= shown.coin < shown.hi
        used = dict(zip((t.token_id for t in shown.tokens), shown.used_probs, strict=True))
        assert used[meta.token_id] == pytest.approx(float(found["probs"][0, meta.token_id]), abs=1e-6)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_head_rows_and_norms_are_the_same_however_the_prompt_was_cut(chunk):
    whole, cut = finished_run(), finished_run(chunk=chunk)
    assert [t.token_id for t in whole.tokens] == [t.token_id for t in cut.tokens]
    length = whole.steps[-1].context_len
    for layer, head in ((0, 0), (2, 9), (1, 4)):
        rows = cut.head_rows(layer, head, 0, length).astype(int)
        assert len(rows) == length * (length + 1) // 2
        np.testing.assert_allclose(rows, whole.head_rows(layer, head, 0, length), atol=1)
        np.testing.assert_array_equal(cut.head_rows(layer, head, 5, 9), cut.head_rows(layer, head, 0, 9)[15:])
    np.testing.assert_allclose(whole.kv_norms(0), cut.kv_norms(0), rtol=1e-4)
    np.testing.assert_allclose(whole.token_probs(0), cut.token_probs(0), rtol=1e-3)
    assert whole.kv_norms(4).shape == (length - 4, 3, 2)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_the_prompts_pooled_maps_equal_its_rows_pooled(chunk):
    prompt = list(range(1, 51))
    run = live_run(SamplingParams(max_new_tokens=1), prompt=prompt, chunk=chunk)
    while run.step():
        pass
    pooled = run.pooled_maps(len(run.steps))
    expected = pool_rows([run.rows_at(i) for i in range(50)], 50)
    assert pooled is not None
    assert pooled.cell == expected.cell == 3
    np.testing.assert_allclose(pooled.maps.astype(int), expected.maps.astype(int), atol=1)
    assert all(run.pooled_maps(m.step) is None for m in run.steps[:-1])


def test_a_long_heads_map_is_its_rows_pooled_whatever_the_blocks(monkeypatch):
    run = finished_run()
    length = run.steps[-1].context_len
    flat = run.head_rows(1, 3, 0, length)
    monkeypatch.setattr(live, "HEAD_BLOCK", 4)
    np.testing.assert_array_equal(run.head_rows(1, 3, 0, length), flat)
    rows = [flat[i * (i + 1) // 2 :][: i + 1] for i in range(length)]
    pooled = run.head_map(1, 3, 3)
    assert pooled.shape == (-(-length // 3),) * 2
    for (y, x), value in np.ndenumerate(pooled):
        cell = [row[3 * x : 3 * x + 3] for row in rows[3 * y : 3 * y + 3]]
        assert value == max((int(part.max()) for part in cell if len(part)), default=0)


def test_norms_are_those_of_the_cache():
    from miniinfer.engine.lookup import kv_at

    run = finished_run()
    length = run.steps[-1].context_len
    for layer in range(3):
        for index, cached in enumerate(kv_at(run.engine, run.seq, layer, 0, length)):
            norms = cached.square().sum((0, 2)).sqrt()
            np.testing.assert_allclose(run.kv_norms(0)[:, layer, index], norms, rtol=1e-5)


def test_looking_back_runs_no_step():
    run = finished_run()

    def refuse(*args, **kwargs):
        raise AssertionError("looking back must not run the model")

    run.engine.step = run.engine.advance = refuse
    for meta in run.steps:
        run.next_token(meta.step)
        run.rows_at(meta.context_len - 1)
    run.next_at(2)
    run.head_rows(0, 0, 0, 10)
    run.head_map(0, 0, 2)
    run.exact_row(0, 0, 3)
    run.token_probs(0)
    run.fork(ForceToken(4, 7), "r2", "b")


def test_token_probabilities_are_the_models_own():
    run = finished_run()
    ids = [t.token_id for t in run.tokens]
    probs = run.token_probs(0)
    assert len(probs) == len(ids)
    assert np.isnan(probs[0])
    for position in (1, 4, len(PROMPT), len(ids) - 1):
        expected = run.logits_at(position - 1).softmax(-1)[ids[position]]
        assert probs[position] == pytest.approx(float(expected), rel=1e-5)


def test_forcing_a_token_branches_and_leaves_the_trunk_as_it_was():
    run = finished_run()
    before = [t.token_id for t in run.tokens]
    other = next(i for i in range(67) if i != run.steps[3].token_id)
    branch = run.fork(ForceToken(4, other), "r2", "branch")
    assert branch.steps[:3] == run.steps[:3]
    assert branch.steps[3].token_id == other
    assert branch.steps[3].forced
    assert branch.steps[3].coin == run.steps[3].coin
    while branch.step():
        pass
    assert [t.token_id for t in run.tokens] == before
    prefix = len(PROMPT) + 3
    assert [t.token_id for t in branch.tokens][: prefix + 1] == [*before[:prefix], other]
    assert [m.coin for m in branch.steps] == [m.coin for m in run.steps], "coins stay comparable after a forced token"
    rerun = live_run(prompt=[*before[:prefix], other])
    rerun.step()
    np.testing.assert_allclose(branch.logits_at(prefix), rerun.logits_at(prefix), atol=1e-4)
    run.engine.check()


def test_forcing_the_token_that_was_drawn_repeats_the_run():
    run = finished_run()
    branch = run.fork(ForceToken(3, run.steps[2].token_id), "r2", "same")
    while branch.step():
        pass
    assert [t.token_id for t in branch.tokens] == [t.token_id for t in run.tokens]


def test_new_settings_draw_again_with_the_same_coin():
    run = finished_run()
    branch = run.fork(ChangeParams(5, SamplingParams(temperature=0, max_new_tokens=12, seed=3)), "r2", "greedy")
    assert branch.steps[4].token_id == int(run.logits_at(run.steps[4].context_len - 1).argmax())
    assert branch.steps[4].coin == run.steps[4].coin
    assert not branch.steps[4].forced
    assert branch.info.params.temperature == 0
    assert branch.next_token(5).greedy


def test_steps_before_a_change_of_settings_show_the_distribution_they_were_drawn_from():
    run = finished_run()
    branch = run.fork(ChangeParams(5, SamplingParams(temperature=0, max_new_tokens=12)), "r2", "greedy")
    branch.step()
    again = branch.fork(ForceToken(3, 7), "r3", "earlier than the change")
    again.step()
    for step in (1, 2, 3, 4):
        assert branch.next_token(step) == run.next_token(step)
        shown = branch.next_token(step)
        assert shown.lo <= shown.coin < shown.hi
        assert branch.next_at(run.steps[step - 1].context_len - 1).temperature == 1.2
    assert [branch.next_token(step).temperature for step in (4, 5, 6)] == [1.2, 0, 0]
    assert [again.next_token(step).temperature for step in (2, 3, 4)] == [1.2, 1.2, 1.2], "it goes on as that step did"


def test_a_branch_shares_the_blocks_of_its_prefix():
    run = finished_run()
    used = run.engine.pool.num_used
    branch = run.fork(ForceToken(9, 11), "r2", "b")
    assert run.engine.pool.num_used == used
    branch.step()
    assert run.engine.pool.num_used <= used + 2, "one block copied when it is written, one new at most"
    branch.release()
    assert run.engine.pool.num_used == used
    run.release()
    assert run.engine.pool.num_used == 0


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [(ForceToken(0, 1), "1 to 12"), (ForceToken(13, 1), "1 to 12"), (ForceToken(2, 67), "0 to 66")],
)
def test_impossible_branches_are_refused_and_change_nothing(edit, sentence):
    run = finished_run()
    used = run.engine.pool.num_used
    with pytest.raises(BadInputError, match=sentence):
        run.fork(edit, "r2", "b")
    assert run.engine.pool.num_used == used


def test_a_branch_in_an_unfinished_prefill_is_refused():
    run = live_run(chunk=1)
    run.step()
    with pytest.raises(BadInputError, match="prefilled"):
        run.fork(ForceToken(1, 3), "r2", "b")
    assert run.next_token(1) is None


def test_records_are_read_only():
    run = finished_run()
    part = run.records[0].sequences[0]
    for array in (part.q, part.final_norm, part.kv_norms, part.pooled.maps):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_dropped_queries_are_a_sentence_not_a_wrong_picture():
    run = finished_run(budget=TraceBudget(limit_bytes=15_000))
    dropped = [r.step for r in run.records if r.sequences[0].q is None]
    assert dropped == list(range(1, len(dropped) + 1))
    assert dropped
    with pytest.raises(BadInputError, match="budget"):
        run.rows_at(0)
    assert run.next_at(0).num_kept > 0, "logits come from the final-norm vector, which is kept"
    run.rows_at(run.steps[-1].context_len - 1)


def test_prompt_positions_say_what_the_model_would_have_said():
    run = live_run(SamplingParams(temperature=0, max_new_tokens=1))
    run.step()
    for position in range(len(PROMPT)):
        alone = live_run(SamplingParams(temperature=0, max_new_tokens=1), prompt=PROMPT[: position + 1])
        alone.step()
        assert run.next_at(position).tokens[0].token_id == alone.steps[0].token_id
        assert run.next_at(position).token_id is None


def test_a_finished_run_steps_no_further():
    run = finished_run()
    assert run.finish_reason == "length"
    assert run.step() is False
    assert len(run.steps) == 12


def test_stages_and_recording_add_up_to_the_time_from_start_to_record():
    run = live_run()
    readings = []

    class Clock:
        """Each mark is one second after the one before it; a mark is read after the step, as on a GPU."""

        def mark(self):
            readings.append("mark")
            return len([r for r in readings if r == "mark"])

        def ms(self, start, end):
            readings.append("read")
            return (end - start) * 1000.0

    run._recorder._clock = Clock()
    run.step()
    (meta,) = run.steps
    stages = len(run.engine.program)
    # schedule, sample and each processor; write_kv and attn_pattern of each layer
    kept_behind = 2 + len(PROCESSOR_NAMES) + 2 * run.info.model.num_layers
    assert readings.index("read") == stages + kept_behind + 1, "no stage waits for its time"
    assert meta.step_ms == sum(meta.stage_ms.values()) == stages * 1000
    assert meta.recording_ms == (kept_behind + 1) * 1000
