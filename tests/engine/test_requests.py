"""What an engine takes and refuses, and why a sequence ends."""

from __future__ import annotations

import pytest

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError, MiniInferError, OutOfBlocksError
from tests.engine.helpers import GREEDY, PROMPT, SMALL, run_all, shared_tiny, solo, tiny_engine
from tests.engine.tiny import TINY, tiny_model


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([], "no tokens"),
        ([67], "Token id 67 is not in the vocabulary, which ends at 66"),
        ([3, -1], "Token id -1"),
        ([3.5], "whole number"),
        (["a"], "whole number"),
        (range(97), "vocabulary"),
        ([1] * 97, "The prompt has 97 tokens, but the context holds 96"),
    ],
)
def test_a_bad_prompt_is_refused_before_anything_runs(prompt, says: str) -> None:
    """CTX-01, CTX-03: a sentence, and the engine is as it was."""
    engine = tiny_engine()
    good = engine.add_request(PROMPT, GREEDY)
    with pytest.raises(BadInputError, match=says):
        engine.add_request(prompt)
    assert list(engine.sequences) == [good.seq_id]
    run_all(engine)
    assert good.output_ids == solo(PROMPT)[0]


def test_other_refusals() -> None:
    engine = tiny_engine()
    engine.add_request(PROMPT, seq_id="mine")
    with pytest.raises(BadInputError, match="'mine' already"):
        engine.add_request(PROMPT, seq_id="mine")
    for chunk in (0, -1, True, 1.5):
        with pytest.raises(BadInputError, match="prefill_chunk"):
            engine.add_request(PROMPT, prefill_chunk=chunk)
    with pytest.raises(BadInputError, match="context holds 96 tokens: context_length cannot be 97"):
        tiny_engine(EngineConfig(context_length=97))
    with pytest.raises(OutOfBlocksError, match="needs 2 blocks of the KV cache, but it has only 1"):
        tiny_engine(EngineConfig(block_size=4, max_blocks=1)).add_request(PROMPT)


def test_ids_are_free_again_after_release() -> None:
    engine = tiny_engine()
    first = engine.add_request(PROMPT, GREEDY, seq_id="mine")
    engine.step()
    engine.release(first)
    assert first.finish_reason == "abort"
    assert engine.add_request(PROMPT, GREEDY, seq_id="mine") is not first
    named = engine.add_request(PROMPT, seq_id="seq-1")
    assert engine.add_request(PROMPT).seq_id not in (named.seq_id, "mine")
    engine.release(first)
    assert "mine" in engine.sequences, "releasing twice does not touch the one that has the id now"


@pytest.mark.parametrize(
    ("num_prompt", "max_new", "num_new", "reason"),
    [
        (15, 5, 2, "context"), (16, 5, 1, "context"), (15, 2, 2, "length"), (14, 3, 3, "length"),
        (5, 0, 0, "length"), (5, 1, 1, "length"), (16, 0, 0, "length"), (16, 1, 1, "length"),
    ],
)  # fmt: skip
def test_fence_posts_of_the_context(num_prompt: int, max_new: int, num_new: int, reason: str) -> None:
    """CTX-03: the last token needs no place in the cache, so prompt + new - 1 positions must fit."""
    engine = tiny_engine(EngineConfig(block_size=4, pool_chunk_blocks=3, context_length=16))
    seq = engine.add_request(range(num_prompt), SamplingParams(temperature=0, max_new_tokens=max_new))
    states = run_all(engine)
    assert (len(seq.output_ids), seq.finish_reason) == (num_new, reason)
    assert len(states) == max(1, num_new), "a token that nobody asked for costs no step"
    assert seq.num_computed_tokens == num_prompt + max(0, num_new - 1) <= 16
    with pytest.raises(BadInputError, match="17 tokens, but the context holds 16"):
        engine.add_request(range(17))


def test_nothing_to_do() -> None:
    engine = tiny_engine()
    assert engine.step() is None
    assert engine.begin_step() is None
    seq = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=1))
    assert engine.step() is not None
    assert engine.step() is None
    assert engine.step(only=seq) is None


def test_stop_ids_of_the_model_and_of_the_request() -> None:
    """CHAT-02: any of the declared ids ends the sequence, and stays in its ids."""
    output_ids = solo(PROMPT)[0]
    cut = next(i for i in range(1, len(output_ids)) if output_ids[i] not in output_ids[:i])
    model = tiny_model(stop_ids=frozenset({output_ids[cut], 66}))
    engine = Engine(model, SMALL)
    of_model = engine.add_request(PROMPT, GREEDY)
    run_all(engine)
    engine = tiny_engine()
    of_request = engine.add_request(
        PROMPT, SamplingParams(temperature=0, max_new_tokens=6, stop_ids=(output_ids[cut], 1000))
    )
    run_all(engine)
    for seq in (of_model, of_request):
        assert seq.output_ids == output_ids[: cut + 1]
        assert seq.finish_reason == "stop"


def test_a_stop_id_in_the_prompt_stops_nothing() -> None:
    """CHAT-03: the end-of-turn token of a chat prompt is a token like any other."""
    engine = Engine(tiny_model(stop_ids=frozenset({PROMPT[2], PROMPT[-1]})), SMALL)
    seq = engine.add_request(PROMPT, GREEDY, prefill_chunk=3)
    run_all(engine)
    assert seq.output_ids == solo(PROMPT)[0]


def test_stop_wins_over_length_and_length_over_context() -> None:
    output_ids = solo(PROMPT)[0]
    config = EngineConfig(block_size=4, context_length=len(PROMPT))
    for stop_ids, max_new, reason in (((output_ids[0],), 1, "stop"), ((), 1, "length"), ((), 2, "context")):
        engine = tiny_engine(config)
        seq = engine.add_request(PROMPT, SamplingParams(temperature=0, max_new_tokens=max_new, stop_ids=stop_ids))
        run_all(engine)
        assert seq.finish_reason == reason


def test_abort_at_any_moment_frees_the_blocks() -> None:
    for steps in range(9):
        engine = tiny_engine(EngineConfig(block_size=4, max_num_seqs=2))
        seqs = [engine.add_request(range(n, n + 12), GREEDY, prefill_chunk=3) for n in range(3)]
        for _ in range(steps):
            engine.step()
        for seq in seqs:
            engine.abort(seq)
            engine.abort(seq)
            engine.check()
        assert engine.pool.num_used == 0
        assert [seq.finish_reason for seq in seqs] == ["abort"] * 3
        assert engine.step() is None


def test_abort_inside_a_parked_step_costs_the_others_nothing() -> None:
    engine = tiny_engine()
    seqs = [engine.add_request(prompt, GREEDY) for prompt in (PROMPT, [1, 2, 3])]
    engine.step()
    state = engine.advance(engine.begin_step(), until=20)
    engine.abort(seqs[1])
    engine.check()
    with pytest.raises(BadInputError, match="over"):
        engine.advance(state)
    run_all(engine)
    assert seqs[0].output_ids == solo(PROMPT)[0]
    assert (seqs[1].finish_reason, seqs[1].num_output_tokens, seqs[1].block_table) == ("abort", 1, [])


def test_a_parked_sequence_cannot_be_in_two_steps() -> None:
    engine = tiny_engine()
    seq = engine.add_request(PROMPT, GREEDY)
    state = engine.advance(engine.begin_step(), until=5)
    with pytest.raises(BadInputError, match="parked"):
        engine.step()
    with pytest.raises(BadInputError, match="parked"):
        engine.step(only=seq)
    other = engine.add_request([1, 2, 3], GREEDY)
    run = engine.step()
    assert [entry.seq for entry in run.scheduled] == [other]
    engine.advance(state)
    run_all(engine)
    assert seq.output_ids == solo(PROMPT)[0]
    assert other.output_ids == solo([1, 2, 3])[0]


def test_advance_goes_forward_only() -> None:
    engine = tiny_engine()
    engine.add_request(PROMPT, GREEDY)
    state = engine.advance(engine.begin_step(), until=5)
    for until in (4, len(engine.program) + 1):
        with pytest.raises(BadInputError, match="cannot advance"):
            engine.advance(state, until=until)
    assert engine.advance(state, until=5).pc == 5
    assert engine.advance(state).pc == len(engine.program)


def test_a_lone_sequence_that_outgrows_the_pool_says_so_and_can_be_ended() -> None:
    engine = tiny_engine(EngineConfig(block_size=4, max_blocks=2))
    seq = engine.add_request(PROMPT, GREEDY)
    engine.step()
    engine.step()
    with pytest.raises(OutOfBlocksError, match="release or abort a run"):
        engine.step()
    assert seq.output_ids == solo(PROMPT)[0][:2]
    engine.check()
    engine.abort(seq)
    assert engine.pool.num_used == 0


def test_a_waiting_sequence_gets_the_blocks_of_one_that_is_released() -> None:
    engine = tiny_engine(EngineConfig(block_size=4, max_blocks=4))
    first = engine.add_request(PROMPT, GREEDY)
    second = engine.add_request(range(12), GREEDY)
    while not first.finished:
        engine.step()
        assert second.num_computed_tokens == 0
    with pytest.raises(OutOfBlocksError):
        engine.step()
    engine.release(first)
    while second.num_output_tokens < 4:
        engine.step()
    assert second.output_ids == solo(range(12))[0][:4]


def test_errors_are_for_people() -> None:
    assert issubclass(OutOfBlocksError, MiniInferError)
    assert TINY.vocab_size == len(shared_tiny().token_bytes)


@pytest.mark.parametrize("prompt", [[True], None, 7, [1.5], ["1"]])
def test_a_prompt_that_is_no_list_of_ids_is_a_sentence(prompt) -> None:
    engine = Engine(tiny_model())
    with pytest.raises(BadInputError, match="token id"):
        engine.add_request(prompt)
    assert not engine.sequences
