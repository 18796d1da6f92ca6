"""What is computed over a whole replayed step: rows over layers, the logit lens, identities, and both ways."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.ops import rms_norm
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from miniinfer.faults.replace import replace_stage
from miniinfer.trace.inside.identities import EXACT, STATEMENTS, check_identities
from miniinfer.trace.inside.logit_lens import followed, lens_logits, logit_lens
from miniinfer.trace.inside.stage_rows import read_stage_rows
from miniinfer.trace.inside.two_ways import compare_both_ways
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import finished
from miniinfer.trace.replay import rows_of
from tests.trace.live import live_run


def stepped(steps: int, **kwargs: object) -> LiveRun:
    run = live_run(**kwargs)  # type: ignore[arg-type]
    for _ in range(steps):
        assert run.step()
    return run


@pytest.fixture
def run() -> Iterator[LiveRun]:
    run = stepped(4)
    yield run
    run.engine.check()
    assert list(run.engine.sequences) == ["r1"]


def watched(steps: int) -> list[tuple[str, int | None, dict[str, torch.Tensor]]]:
    """(stage, layer, tensors) of the run's newest step, by an observer of an undisturbed twin."""
    run, found = stepped(steps - 1), []

    def watch(stage: object, state: StepState) -> None:
        written = {n: getattr(state, n) for n in stage.writes if hasattr(state, n)}  # type: ignore[attr-defined]
        tensors = {n: v[0] if isinstance(v, tuple) and v else v for n, v in written.items()}
        kept = {n: t.clone() for n, t in tensors.items() if isinstance(t, torch.Tensor)}
        found.append((stage.name, stage.layer, kept))  # type: ignore[attr-defined]

    run.engine.step(watch, only=run.seq)
    return found


@pytest.mark.parametrize("position", [0, 3, 6])
def test_rows_are_those_of_the_step(run: LiveRun, position: int) -> None:
    rows = finished(read_stage_rows(run, rows_of(run, 1), position))
    expected = {(stage, layer, n): t for stage, layer, tensors in watched(1) for n, t in tensors.items()}
    for tensor in rows.tensors:
        full = expected[(tensor.stage, tensor.layer, tensor.name)]
        if tensor.name in ("attn_scores", "attn_pattern"):
            wanted = full[:, 0].flatten(0, 1)[:, position, : position + 1]
        elif full.shape[0] == 1 and full.shape[-1] == 67:
            wanted = full[0]
        else:
            wanted = full[position]
        assert np.array_equal(tensor.values, wanted.numpy()), tensor
    logits = [t for t in rows.tensors if t.name == "raw_logits"]
    assert len(logits) == (position == 6)  # a token is chosen after the last row alone
    assert [t.layer for t in rows.over_layers("resid_post")] == [0, 1, 2]
    for layer in range(3):
        norms = expected[("mlp_out", layer, "resid_post")].norm(dim=1)
        torch.testing.assert_close(torch.from_numpy(rows.norms["resid_post"][layer]), norms)


def test_rope_has_the_last_word_on_q(run: LiveRun) -> None:
    rows = finished(read_stage_rows(run, rows_of(run, 3), rows_of(run, 3).start))
    assert [t.stage for t in rows.over_layers("q")] == ["rope"] * 3


@pytest.mark.parametrize("step", [1, 3, 5])
def test_the_last_line_of_the_lens_is_what_the_step_itself_says(run: LiveRun, step: int) -> None:
    place = rows_of(run, step)
    rows = finished(read_stage_rows(run, place, place.stop - 1))
    lens = logit_lens(run, rows, count=4)
    own = next(tensors["raw_logits"][0] for name, _, tensors in watched(step) if name == "unembed")
    probs = own.softmax(-1)
    assert lens.top_ids[-1].tolist() == probs.topk(4).indices.tolist()
    np.testing.assert_allclose(lens.top_probs[-1], probs.topk(4).values.numpy(), rtol=1e-5)
    assert lens.final_id == int(own.argmax())
    assert lens.final_ranks[-1] == 1
    assert lens.divergence[-1] == 0
    assert lens.labels == ["embedding", "layer 0", "layer 1", "layer 2"]
    assert lens.next_id == (run.seq.token_ids[place.stop] if step <= 4 else None)


def test_a_rank_is_one_of_logits_for_far_down_all_probabilities_are_0() -> None:
    logits = torch.tensor([[-300.0, -200.0, -100.0, 200.0], [1.0, 1.0, 2.0, 0.0]])
    ranks, shares = followed(logits, logits.softmax(-1), 0)
    assert ranks.tolist() == [4, 2]
    assert shares[0] == 0
    assert followed(logits, logits.softmax(-1), 1)[0].tolist() == [3, 3], "of equals the lowest id comes first"


def test_every_line_of_the_lens_is_norm_and_unembed_of_that_layer(run: LiveRun) -> None:
    rows = finished(read_stage_rows(run, rows_of(run, 1), 2))
    lens = logit_lens(run, rows, count=67)
    weights = run.engine.weights
    stream = [rows.tensors[0].values, *(t.values for t in rows.over_layers("resid_post"))]
    for i, vector in enumerate(stream):
        normed = rms_norm(torch.from_numpy(np.array(vector))[None], weights.final_norm, 1e-5)
        probs = weights.unembed(normed)[0].softmax(-1)
        found = torch.zeros(67)
        found[torch.from_numpy(lens.top_ids[i])] = torch.from_numpy(lens.top_probs[i])
        torch.testing.assert_close(found, probs, rtol=1e-4, atol=1e-7)
        assert lens.final_ranks[i] == 1 + lens.top_ids[i].tolist().index(lens.final_id)
        entropy = -float((probs * probs.log()).sum())
        assert lens.entropy[i] == pytest.approx(entropy, abs=1e-4)
    assert lens.final_ranks[lens.settled] == 1
    assert lens.settled == 0 or lens.final_ranks[lens.settled - 1] != 1


def test_the_lens_runs_the_stages_of_the_runs_own_program(run: LiveRun) -> None:
    def doubled(engine: object, state: StepState) -> None:
        state.final_norm_out = state.resid_post * 2

    rows = np.ones((2, 28), np.float32)
    run.engine.program = replace_stage(run.engine.program, "final_norm", doubled)
    expected = run.engine.weights.unembed(torch.full((2, 28), 2.0))
    torch.testing.assert_close(lens_logits(run, rows), expected)


@pytest.mark.parametrize(("step", "missing"), [(1, set()), (3, {"nobody looks ahead"}), (5, {"nobody looks ahead"})])
def test_all_identities_hold_on_a_healthy_step(run: LiveRun, step: int, missing: set[str]) -> None:
    found = {i.name: i for i in finished(check_identities(run, rows_of(run, step)))}
    assert found.keys() == STATEMENTS.keys() - missing
    for identity in found.values():
        assert identity.holds, identity
        assert identity.largest == 0 or identity.name not in EXACT
        assert identity.largest < 1e-6
    assert len(found["attention is added"].by_layer) == 3
    assert len(found["the stream goes on"].by_layer) == 2


def test_a_step_that_chooses_no_token_has_no_probabilities_to_check() -> None:
    run = stepped(1, chunk=3)
    assert "probabilities are shares" not in {i.name for i in finished(check_identities(run, rows_of(run, 1)))}


def _scaled(field: str) -> object:
    def change(state: StepState) -> None:
        value = getattr(state, field)
        setattr(state, field, tuple(v * 1.01 for v in value) if isinstance(value, tuple) else value * 1.01)

    return change


@pytest.mark.parametrize(
    ("stage", "field", "broken"),
    [
        ("attn_out", "resid_mid", "attention is added"), ("mlp_out", "resid_post", "the MLP is added"),
        ("rope", "q", "RoPE only turns q"), ("rope", "k", "RoPE only turns k"),
        ("attn_pattern", "attn_pattern", "weights are shares"), ("attn_mix", "z", "z is a mix of values"),
        ("write_kv", "k", "the cache holds the keys"), ("write_kv", "v", "the cache holds the values"),
        ("softmax", "probs", "probabilities are shares"), ("attn_norm", "resid_pre", "the stream goes on"),
    ],
)  # fmt: skip
def test_each_identity_fails_where_its_stage_is_wrong(stage: str, field: str, broken: str) -> None:
    run = stepped(1)
    layer = None if stage == "softmax" else 1
    ok = next(s for s in run.engine.program if (s.name, s.layer) == (stage, layer))

    def fn(engine: object, state: StepState) -> None:
        ok.fn(engine, state)  # type: ignore[arg-type]
        _scaled(field)(state)  # type: ignore[operator]

    run.engine.program = replace_stage(run.engine.program, stage, fn, layers=None if layer is None else [layer])
    found = {i.name: i for i in finished(check_identities(run, rows_of(run, 1)))}
    assert [name for name, i in found.items() if not i.holds] == [broken]
    assert found[broken].layer == layer


def test_a_mask_that_was_forgotten_and_a_nan_are_found() -> None:
    run = stepped(1)
    ok = {s.name: s for s in run.engine.program if s.layer == 2}

    def unmasked(engine: object, state: StepState) -> None:
        ok["attn_scores"].fn(engine, state)  # type: ignore[arg-type]
        state.attn_scores = tuple(s.clamp(min=-3) for s in state.attn_scores)

    def poisoned(engine: object, state: StepState) -> None:
        ok["mlp_out"].fn(engine, state)  # type: ignore[arg-type]
        state.resid_post = state.resid_post + torch.tensor(float("nan"))

    healthy = run.engine.program
    run.engine.program = replace_stage(healthy, "attn_scores", unmasked, layers=[2])
    found = {i.name: i for i in finished(check_identities(run, rows_of(run, 1)))}
    assert not found["nobody looks ahead"].holds
    assert found["nobody looks ahead"].layer == 2
    run.engine.program = replace_stage(healthy, "mlp_out", poisoned, layers=[2])
    found = {i.name: i for i in finished(check_identities(run, rows_of(run, 1)))}
    assert not found["the MLP is added"].holds
    assert math.isnan(found["the MLP is added"].largest)


@pytest.mark.parametrize("position", [0, 3, 6, 9, 10])
def test_prefill_and_decode_agree_within_rounding(run: LiveRun, position: int) -> None:
    ways = finished(compare_both_ways(run, position))
    places = [(t.stage, t.layer, t.name) for t in ways.prefill]
    assert places == [(t.stage, t.layer, t.name) for t in ways.decode]
    assert len(ways.comparison.differences) == len(places)
    assert ways.relative < 2e-5
    assert ways.comparison.largest is not None
    if position == 0:
        assert ways.comparison.largest.largest == 0
    assert ("unembed", None, "raw_logits") in places
    # Where a filter cuts, a rounding may be the difference to minus infinity: what follows is the sampler's.
    assert not {"logits", "probs"} & {name for _, _, name in places}


def test_both_ways_are_what_they_claim_to_be(run: LiveRun) -> None:
    """In decode the earlier keys come from the run's cache: change them there, and the ways part at the scores."""
    block = run.seq.block_table[0]
    with torch.inference_mode():
        run.engine.kv_cache.data[1, 0, :, block, 2] *= 3  # keys of position 2 in layer 1
    ways = finished(compare_both_ways(run, 9))
    assert ways.comparison.first is not None
    assert (ways.comparison.first.stage, ways.comparison.first.layer) == ("attn_scores", 1)


def test_a_long_prefill_runs_in_chunks_of_the_budget() -> None:
    run = live_run(prompt=list(range(1, 31)))
    run.step()
    run.engine.config = EngineConfig(block_size=4, pool_chunk_blocks=4, max_num_batched_tokens=8)
    run.engine.scheduler.config = run.engine.config
    ways = finished(compare_both_ways(run, 29))
    assert ways.relative < 2e-5
    run.engine.check()


def test_positions_that_are_not_there_are_refused(run: LiveRun) -> None:
    with pytest.raises(BadInputError):
        finished(compare_both_ways(run, run.seq.num_tokens))


def test_a_replay_in_parts_lets_others_step_and_gives_all_back(run: LiveRun) -> None:
    place = rows_of(run, 1)
    expected = finished(read_stage_rows(run, place, 2))
    other = run.engine.add_request([1, 2, 3], SamplingParams(temperature=0, max_new_tokens=40))
    work, shares = read_stage_rows(run, place, 2), []
    while True:
        try:
            shares.append(next(work))
        except StopIteration as end:
            found = end.value
            break
        run.engine.step(only=other)
        run.engine.check()
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (run.info.model.num_layers + 1, 1)
    for a, b in zip(expected.tensors, found.tensors, strict=True):
        assert np.array_equal(a.values, b.values), (a.stage, a.layer, a.name)
    given_up = compare_both_ways(run, 9)
    next(given_up)
    given_up.close()
    assert set(run.engine.sequences) == {"r1", other.seq_id}
    run.engine.release(other)
