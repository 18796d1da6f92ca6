"""A sequence that goes on where it stood: its tokens are known, its keys and values are computed anew.

Coins depend on the place in the output only, so what is sampled afterwards is what would have been sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.requests import checked_chunk, checked_id, checked_prompt
from miniinfer.engine.sequence import Sequence


def resume(
    engine: Engine,
    prompt_ids: Iterable[int],
    output_ids: Iterable[int],
    params: SamplingParams,
    *,
    forced: Mapping[int, int] | None = None,
    prefill_chunk: int | None = None,
    seq_id: str | None = None,
    trunk: Sequence | None = None,
    shared: int = 0,
) -> Sequence:
    """Queue a prompt whose output so far is known. Nothing runs before a step. Raises BadInputError.

    forced: output index -> id, as in `Sequence`. The first `shared` positions are those of `trunk`: as far as it has
    them in its cache they are taken over, as a fork would, and not computed.
    """
    vocab = engine.model_config.vocab_size
    prompt = checked_prompt(prompt_ids, vocab, engine.context_length)
    token_ids = [*prompt, *(checked_id(token_id, vocab) for token_id in output_ids)]
    seq = Sequence(
        engine._new_id(seq_id), token_ids, len(prompt), params, forced=dict(forced or {}),
        prefill_chunk=checked_chunk(prefill_chunk),
    )  # fmt: skip
    if trunk is not None and engine.sequences.get(trunk.seq_id) is trunk:
        shared = min(shared, trunk.num_computed_tokens, len(token_ids) - 1)
        if trunk.token_ids[:shared] == token_ids[:shared]:
            seq.num_computed_tokens = shared
            seq.block_table = trunk.block_table[: -(-shared // engine.config.block_size)]
            engine.pool.share(seq.block_table)
    engine.sequences[seq.seq_id] = seq
    engine.scheduler.add(seq)
    return seq


@contextmanager
def up_to(seq: Sequence, num_positions: int) -> Iterator[None]:
    """Steps in here compute positions up to `num_positions` at once, or as many as the token budget allows. No token is
    sampled while a known one stands behind them."""
    chunk, seq.prefill_chunk = seq.prefill_chunk, num_positions - seq.num_computed_tokens
    try:
        yield
    finally:
        seq.prefill_chunk = chunk


def end_if_over(engine: Engine, seq: Sequence) -> None:
    """Call when all is recomputed: a sequence whose last known token ended it has ended."""
    reason = engine.finish_reason(seq) if seq.num_output_tokens and not seq.finished else None
    if reason is not None:
        engine.scheduler.remove(seq)
        seq.finish(reason)
