"""Guesses about the KV cache, and what the run answers: counted from its tensors, tables and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.config import ModelConfig
from miniinfer.errors import BadInputError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import StepMeta

TOKENS = 100  # that the first question is about
CLOSE = 0.05  # a guess of bytes this near is taken for right


@dataclass(frozen=True)
class TensorBytes:
    """Bytes of the K and V tensors that hold the first `positions` positions of a run, all layers together."""

    positions: int
    bytes: int

    def of(self, tokens: int) -> int:
        """The cache is a straight line, so any number of tokens follows."""
        return self.bytes * tokens // self.positions


@dataclass(frozen=True)
class Written:
    """Bytes of keys and values written into the cache, and steps that wrote them."""

    prefill_bytes: int
    decode_bytes: int
    prefill_steps: int
    decode_steps: int

    @property
    def longer(self) -> str:
        if self.prefill_bytes == self.decode_bytes:
            return "equal"
        return "prefill" if self.prefill_bytes > self.decode_bytes else "decode"


@dataclass(frozen=True)
class BranchCost:
    """Allocated bytes of the pool: before a branch, right after it, and after the branch's first step."""

    before: int
    forked: int
    stepped: int
    copied: bool

    @property
    def at_once(self) -> int:
        return self.forked - self.before

    @property
    def first_step(self) -> int:
        return self.stepped - self.forked


def tensor_bytes(run: LiveRun) -> TensorBytes:
    """Counted from the tensors that the cache gives for this run. Raises BadInputError before the first step."""
    from miniinfer.engine.lookup import kv_at

    positions = run.seq.num_computed_tokens
    if positions == 0:
        raise BadInputError("Nothing is in the cache yet: step once first.")
    total = 0
    for layer in range(run.info.model.num_layers):
        keys, values = kv_at(run.engine, run.seq, layer, 0, positions)
        total += keys.numel() * keys.itemsize + values.numel() * values.itemsize
    return TensorBytes(positions, total)


def written_bytes(meta: StepMeta) -> int:
    """Bytes of keys and values that one step put into the cache."""
    return meta.kv_used_bytes // meta.context_len * meta.num_scheduled if meta.context_len else 0


def written_by_phase(steps: Sequence[StepMeta]) -> Written:
    prefill = [m for m in steps if m.phase == "prefill"]
    decode = [m for m in steps if m.phase == "decode"]
    return Written(sum(map(written_bytes, prefill)), sum(map(written_bytes, decode)), len(prefill), len(decode))


def next_block_step(steps: Sequence[StepMeta], after: int) -> int | None:
    """The first step behind `after` at which the run held more blocks than at the step before it."""
    for earlier, later in zip(steps[after - 1 :], steps[after:], strict=False):
        if later.kv_allocated_bytes > earlier.kv_allocated_bytes:
            return later.step
    return None


def branch_cost(run: LiveRun, step: int) -> BranchCost:
    """Try it: fork where step `step` chose its token, step the branch once, and release it again. The run and its
    blocks are as they were afterwards. Raises BadInputError where no branch can go on."""
    part = run.steps[step - 1] if 1 <= step <= len(run.steps) else None
    if part is None or part.token_id is None:
        raise BadInputError("A branch starts at a step that chose a token: step on to one.")
    engine = run.engine
    before, copies = engine.allocated_bytes(), len(engine.block_copies)
    branch = engine.fork(run.seq, part.context_len, force=part.token_id)
    try:
        forked = engine.allocated_bytes()
        if branch.finished:
            raise BadInputError("A branch here would be over at once: go back a step or two and try there.")
        engine.step(only=branch)
        return BranchCost(before, forked, engine.allocated_bytes(), len(engine.block_copies) > copies)
    finally:
        engine.release(branch)


def slip(guess: int, answer: int, model: ModelConfig, itemsize: int) -> str | None:
    """Which factor a guess has left out or taken twice, in words; None if it is none of the usual ones."""
    usual = {
        "That is the answer with a KV head for every query head, as without GQA.": model.group_size,
        "That counts K or V alone" + (", or two bytes a number where there are four." if itemsize == 4 else "."): 0.5,
        "That is one layer; every layer has a cache of its own.": 1 / model.num_layers,
        "That is one KV head of each layer.": 1 / model.num_kv_heads,
        f"That is one token; the question was about {TOKENS}.": 1 / TOKENS,
    }
    for words, factor in usual.items():
        if factor != 1 and abs(guess - answer * factor) <= CLOSE * answer * factor:
            return words
    return None


def is_close(guess: int, answer: int) -> bool:
    return abs(guess - answer) <= CLOSE * answer
