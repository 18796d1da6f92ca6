"""Many requests together give each the tokens that it gets alone: in any order, preempted, with prefix hits, in static
batches, and with rubbish in every block that is free."""

from __future__ import annotations

import itertools

import pytest
import torch

from miniinfer.config import POLICIES, EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from tests.engine.helpers import GREEDY, PROMPT, PROMPTS, logits_by_seq, poison, run_all, shared_tiny, solo

ACROSS_SHAPES = 1e-3
HEAD = list(range(20, 32))  # a beginning that several prompts share: three full blocks
SHARED = (*(HEAD + tail for tail in ([5, 17], [1, 2, 3, 4, 5, 6], [60])), HEAD, HEAD[:6], [33, 8])


def serve(
    engine: Engine, prompts: list[list[int]], params: list[SamplingParams], order: tuple[int, ...], every: int = 0
) -> tuple[dict[int, Sequence], list[StepState]]:
    """Run them all; number `i` of the order comes after i * every steps, and whoever is done gives its blocks back."""
    coming = list(order)
    seqs: dict[int, Sequence] = {}
    states: list[StepState] = []
    while coming or engine.has_unfinished:
        while coming and len(states) >= (len(order) - len(coming)) * every:
            i = coming.pop(0)
            seqs[i] = engine.add_request(prompts[i], params[i], seq_id=f"r{i}")
        poison(engine)
        state = engine.step()
        assert state is not None, "a gap in the arrivals: let them come sooner"
        states.append(state)
        engine.check()
        if engine.config.batching == "continuous" or not engine.scheduler.running:
            for seq in [seq for seq in engine.sequences.values() if seq.finished]:
                engine.release(seq)
        engine.check()
    assert engine.pool.num_used == 0
    return seqs, states


def check_against_solo(prompts, params, seqs, states) -> None:
    logits = logits_by_seq(states)
    for i, seq in seqs.items():
        expected_ids, expected = solo(prompts[i], params[i])
        assert seq.output_ids == expected_ids, i
        assert len(logits[f"r{i}"]) == len(expected)
        for found, wanted in zip(logits[f"r{i}"], expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=ACROSS_SHAPES, rtol=0)
            best = wanted.topk(2).values
            assert best[0] - best[1] > 0.01, "a margin too small for this test: choose another prompt"


def mixed_params(count: int, most: int = 9) -> list[SamplingParams]:
    return [SamplingParams(seed=i, temperature=0.7 * (i % 2), max_new_tokens=most - i % 4) for i in range(count)]


@pytest.mark.parametrize("every", [0, 2])
@pytest.mark.parametrize("prefixes", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_preempted_in_any_order_equals_alone(policy: str, prefixes: bool, every: int) -> None:
    """A pool in which only the longest fits for sure, so that somebody must always give way."""
    config = EngineConfig(
        block_size=4, max_blocks=9, max_num_batched_tokens=11, policy=policy, prefix_caching=prefixes
    )
    params = mixed_params(len(SHARED))
    preempted = cached = 0
    for order in itertools.islice(itertools.permutations(range(len(SHARED))), 0, 720, 269):
        seqs, states = serve(Engine(shared_tiny(), config), list(SHARED), params, order, every)
        check_against_solo(SHARED, params, seqs, states)
        preempted += sum(seq.num_preemptions for seq in seqs.values())
        cached += sum(seq.num_cached_tokens for state in states for seq in state.admitted)
    assert preempted > 0
    assert (cached > 0) == prefixes


@pytest.mark.parametrize("options", [{}, {"prefix_caching": True}, {"reserve_blocks": True}])
@pytest.mark.parametrize("budget", [6, 256])
def test_a_static_batch_equals_alone(options: dict, budget: int) -> None:
    """KV-01: padding is nobody's context, and every row keeps its own positions."""
    config = EngineConfig(
        block_size=4, max_blocks=40, max_num_batched_tokens=budget, max_num_seqs=4, batching="static", **options
    )
    params = mixed_params(len(SHARED))
    for order in itertools.islice(itertools.permutations(range(len(SHARED))), 0, 720, 239):
        engine = Engine(shared_tiny(), config)
        seqs, states = serve(engine, list(SHARED), params, order)
        check_against_solo(SHARED, params, seqs, states)
        for state in states:
            assert len(state.input_ids) == state.width * len(state.scheduled) <= budget
            assert len(state.written_rows) == sum(entry.num_tokens for entry in state.scheduled)
        idle = sum(entry.num_tokens == 0 for state in states for entry in state.scheduled)
        assert idle > 0, "who is done stays until all are"
        batches = [tuple(entry.seq.seq_id for entry in state.scheduled) for state in states]
        assert len(set(batches)) == 2, "nobody joins or leaves in between"


def test_a_static_batch_takes_the_first_of_the_policys_queue() -> None:
    engine = Engine(shared_tiny(), EngineConfig(batching="static", policy="sjf", max_num_seqs=2))
    long, middle, short = (engine.add_request(prompt, GREEDY) for prompt in (HEAD, [1, 2, 3, 4, 5], [7]))
    state = engine.step()
    assert state is not None
    assert [entry.seq for entry in state.scheduled] == [short, middle]
    assert long.block_table == []


def test_padding_reads_and_leaves_nothing() -> None:
    """The same static batch with other ids in its padding gives the same logits, bit for bit."""
    from miniinfer.engine import padding

    found = []
    for padding_id in (0, 66):
        engine = Engine(shared_tiny(), EngineConfig(block_size=4, batching="static"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(padding, "PADDING_ID", padding_id)
            for prompt in PROMPTS:
                engine.add_request(prompt, GREEDY)
            found.append(logits_by_seq(run_all(engine)))
    for name, logits in found[0].items():
        assert all(torch.equal(a, b) for a, b in zip(logits, found[1][name], strict=True))


def test_a_prefix_hit_computes_only_the_rest() -> None:
    engine = Engine(shared_tiny(), EngineConfig(block_size=4, prefix_caching=True))
    first = engine.add_request([*HEAD, 5, 17], GREEDY)
    engine.step()
    second = engine.add_request([*HEAD, 60], GREEDY)
    third = engine.add_request(HEAD, GREEDY)
    state = engine.step()
    shares = {entry.seq.seq_id: (entry.start, entry.num_tokens) for entry in state.scheduled}
    assert shares == {first.seq_id: (14, 1), second.seq_id: (12, 1), third.seq_id: (8, 4)}, "the last token is computed"
    assert second.block_table[:3] == first.block_table[:3]
    run_all(engine)
    for seq in (first, second, third):
        engine.release(seq)
    assert engine.pool.num_used == 0
    again = engine.add_request([*HEAD, 60], GREEDY)
    run_all(engine)
    assert (again.num_cached_tokens, again.output_ids) == (12, second.output_ids), "freed blocks are found again"


def test_a_branch_from_the_middle_of_a_cached_block_is_not_found_as_its_trunk() -> None:
    """The branch has the block for itself once the trunk is gone, and writes its own tokens into it."""
    engine = Engine(shared_tiny(), EngineConfig(block_size=4, prefix_caching=True))
    trunk = engine.add_request(HEAD, GREEDY)
    engine.step()
    branch = engine.fork(trunk, 6, force=9, params=GREEDY)
    engine.release(trunk)
    run_all(engine)
    engine.check()
    alone = Engine(shared_tiny())
    other = alone.add_request(HEAD, GREEDY)
    run_all(alone)
    again = engine.add_request(HEAD, GREEDY)
    run_all(engine)
    assert again.num_cached_tokens == 4
    assert again.output_ids == other.output_ids
    assert branch.token_ids[:7] == [*HEAD[:6], 9]


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_an_abort_at_any_moment_frees_its_blocks(batching: str) -> None:
    config = EngineConfig(block_size=4, max_blocks=30, max_num_batched_tokens=15, batching=batching)
    params = SamplingParams(temperature=0, max_new_tokens=5)
    for moment in range(9):
        engine = Engine(shared_tiny(), config)
        seqs = [engine.add_request(prompt, params) for prompt in PROMPTS[:4]]
        for _ in range(moment):
            engine.step()
        for victim in (seqs[1], seqs[3]):
            over = victim.finished
            engine.abort(victim)
            engine.check()
            assert over or victim.block_table == []
        run_all(engine)
        for seq, prompt in zip(seqs, PROMPTS, strict=False):
            expected, _ = solo(prompt, params)
            assert seq.output_ids == (expected if seq.finish_reason == "length" else expected[: seq.num_output_tokens])
            engine.release(seq)
        assert engine.pool.num_used == 0


def test_an_interrupted_step_keeps_a_preemption_and_loses_no_token() -> None:
    engine = Engine(shared_tiny(), EngineConfig(block_size=4, max_blocks=4))
    older, later = engine.add_request(PROMPT, GREEDY), engine.add_request([1, 2, 3, 4, 5, 6], GREEDY)
    engine.step()
    engine.step()
    tokens = list(older.token_ids), list(later.token_ids)

    def interrupt(stage, state) -> None:
        if stage.name == "final_norm":
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        engine.step(interrupt)
    engine.check()
    assert (later.num_preemptions, later.block_table) == (1, [])
    assert (older.token_ids, later.token_ids) == tokens
    while not older.finished:
        engine.step()
        engine.check()
    engine.release(older)
    run_all(engine)
    assert older.output_ids == solo(PROMPT)[0]
    assert later.output_ids == solo([1, 2, 3, 4, 5, 6])[0]


def test_stepping_one_alone_preempts_nobody() -> None:
    engine = Engine(shared_tiny(), EngineConfig(block_size=4, max_blocks=4))
    older, later = engine.add_request(PROMPT, GREEDY), engine.add_request([1, 2, 3, 4, 5, 6], GREEDY)
    engine.step()
    engine.step()
    with pytest.raises(Exception, match="needs another block"):
        engine.step(only=older)
    assert later.num_preemptions == 0
    assert len(later.block_table) == 2


def test_a_static_batch_is_stepped_as_a_whole() -> None:
    engine = Engine(shared_tiny(), EngineConfig(batching="static"))
    seq = engine.add_request(PROMPT, GREEDY)
    with pytest.raises(BadInputError, match="stepped as a whole"):
        engine.step(only=seq)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "lifo"}, "policy must be one of fcfs, sjf, prefill-first, decode-first, not 'lifo'"),
        ({"batching": "dynamic"}, "continuous or static"),
        ({"prefix_caching": True, "reserve_blocks": True}, "prefix_caching must be off"),
    ],
)
def test_bad_settings(options: dict, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        EngineConfig(**options)
