"""What is kept of a batch run: many requests together, engine step by engine step. Plain Python and numpy, no torch.

`BatchRun` (batch/run.py) makes these records; the page and the command read them. A `BatchTrace` is a snapshot: what it
holds never changes, and going back is looking at an earlier step. Steps count from 1. Times are milliseconds of engine
time: the measured steps one after another, without the pauses between two clicks. Bytes and times are measured, counts,
blocks and probabilities computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from miniinfer.config import SamplingParams
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.records import FloatArray, TokenInfo

RowPhase = Literal["prefill", "decode", "idle"]


class LaneState(StrEnum):
    """What a request is doing in a step: one cell of its lane in the timeline."""

    PENDING = "pending"  # it has not arrived yet
    WAITING = "waiting"  # in the queue, never started
    PREFILL = "prefill"  # a chunk of its prompt (after a preemption: of prompt and output) is computed
    DECODE = "decode"  # one token
    STALLED = "stalled"  # it has started, but this step has no place for it
    PREEMPTED = "preempted"  # it lost its blocks and has not come back yet
    IDLE = "idle"  # static batching: it is done, or has its first token, and its row is computed as padding
    FINISHED = "finished"  # it ended in an earlier step
    REFUSED = "refused"  # it never ran


@dataclass(frozen=True)
class Candidate:
    """A likely next token. raw_prob: softmax of the model's own logits. used_prob: what the draw used (greedy: 1,
    0)."""

    token: TokenInfo
    raw_prob: float
    used_prob: float


@dataclass(frozen=True)
class BatchRow:
    """One request's part of a step.

    Positions start .. start + num_tokens - 1 went through the model; num_padding slots beside them were computed for
    nothing (static batching). num_cached: of its positions, those found in the prefix cache when it started or came
    back in this step. num_recomputed: of num_tokens, those that had been computed before a preemption. context_len:
    positions in the cache after the step.

    token, coin and candidates (the five best by raw probability, the drawn one always among them) are there if the row
    chose a token. margin: the best raw logit minus the second. ends: the token is a stop id, and not part of the text.
    """

    request_id: str
    phase: RowPhase
    start: int
    num_tokens: int
    num_padding: int
    num_cached: int
    num_recomputed: int
    context_len: int
    token: TokenInfo | None = None
    token_prob: float | None = None  # what the draw gave it; 1.0 when greedy
    coin: float | None = None
    margin: float | None = None
    candidates: tuple[Candidate, ...] = ()
    ends: bool = False
    finish_reason: str | None = None  # if this step ended it: stop | length | context | abort
    error: str | None = None  # the sentence for an abort by the engine


@dataclass(frozen=True)
class BlockGrid:
    """Every block of the pool at the end of a step (of a pool without a size, or of more than 4,096 blocks, those that
    were needed so far); blocks of requests that ended in it are still theirs.

    owners[b]: ids of the requests whose table holds block b, in order of arrival; nobody: it is free.
    filled[b]: positions of it that hold something computed. cached[b]: its contents can be found by the prefix cache.
    tables: for each request its blocks in order of position.
    """

    owners: tuple[tuple[str, ...], ...]
    filled: tuple[int, ...]
    cached: tuple[bool, ...]
    tables: Mapping[str, tuple[int, ...]]

    @property
    def num_used(self) -> int:
        return sum(bool(owners) for owners in self.owners)

    @property
    def num_shared(self) -> int:
        return sum(len(owners) > 1 for owners in self.owners)

    @property
    def num_cached_free(self) -> int:
        """Free blocks that are kept in case somebody comes with the same beginning."""
        return sum(cached and not owners for owners, cached in zip(self.owners, self.cached, strict=True))

    def kind(self, block: int) -> Literal["owned", "shared", "cached-free", "free"]:
        owners = self.owners[block]
        if owners:
            return "shared" if len(owners) > 1 else "owned"
        return "cached-free" if self.cached[block] else "free"


@dataclass(frozen=True)
class BatchStep:
    """One engine step. rows stand in the order in which the step computed them: decodes, then prompt chunks.

    states: what every request of the run is doing, by id. waiting: the queue that this step left, in the order in which
    it will be served, preempted ones included. waits_for: why the first of them did not start: budget | seqs | blocks |
    policy (decode-first: another prompt is being computed) | batch (static: until the batch ends). budget: the most
    slots that the step may compute; num_tokens + wasted_slots were. An idle step (nobody there, the next request has
    not arrived) has no rows and takes no time. final_norm: [R, E] read-only, the vectors from which the rows with a
    token chose it, in the order of `rows`.
    """

    step: int
    step_ms: float
    end_ms: float  # all steps up to the end of this one
    rows: tuple[BatchRow, ...]
    states: Mapping[str, LaneState]
    arrived: tuple[str, ...]
    admitted: tuple[str, ...]
    preempted: tuple[str, ...]
    waiting: tuple[str, ...]
    waits_for: str | None
    budget: int
    blocks: BlockGrid
    final_norm: FloatArray = field(repr=False, compare=False)

    @property
    def num_tokens(self) -> int:
        return sum(row.num_tokens for row in self.rows)

    @property
    def padding_slots(self) -> int:
        """Slots that only fill up a shorter prompt."""
        return sum(row.num_padding for row in self.rows if row.phase == "prefill")

    @property
    def idle_slots(self) -> int:
        """Slots of rows that have nothing to do until the others of their static batch are as far."""
        return sum(row.num_padding for row in self.rows if row.phase == "idle")

    @property
    def wasted_slots(self) -> int:
        return self.padding_slots + self.idle_slots

    @property
    def num_new_tokens(self) -> int:
        """Tokens that were chosen: what the users get."""
        return sum(row.token is not None for row in self.rows)

    @property
    def num_recomputed(self) -> int:
        return sum(row.num_recomputed for row in self.rows)

    @property
    def num_cached(self) -> int:
        return sum(row.num_cached for row in self.rows)

    def row(self, request_id: str) -> BatchRow | None:
        return next((row for row in self.rows if row.request_id == request_id), None)


@dataclass(frozen=True)
class BatchTrace:
    """A batch run as far as it has come. refused: request id -> the sentence that says why it never ran. aborted:
    request id -> the number of steps after which somebody ended it."""

    model_name: str
    dtype: str
    requests: tuple[BatchRequest, ...]
    settings: BatchSettings
    prompt_tokens: Mapping[str, tuple[TokenInfo, ...]]
    refused: Mapping[str, str]
    aborted: Mapping[str, int]
    num_blocks: int  # the most that the pool may have
    block_bytes: int
    context_length: int
    steps: tuple[BatchStep, ...]
    finished: bool

    def request(self, request_id: str) -> BatchRequest:
        return next(request for request in self.requests if request.request_id == request_id)


@dataclass(frozen=True)
class RequestView:
    """A request as it stood after some step (`batch_view.request_at`).

    ttft_ms: from its arrival to its first token. tpot_ms: from the first to the newest, divided by the tokens after the
    first. None until they exist. text: the output, without stop text and stop token. num_recomputed and num_cached are
    sums over its steps.
    """

    request_id: str
    state: LaneState
    arrival: int
    num_prompt_tokens: int
    output: tuple[TokenInfo, ...]
    text: str
    first_token_step: int | None
    finished_step: int | None
    finish_reason: str | None
    error: str | None
    ttft_ms: float | None
    tpot_ms: float | None
    num_preemptions: int
    num_cached: int
    num_recomputed: int


@dataclass(frozen=True)
class BatchTotals:
    """Sums over the steps up to one (`batch_view.totals_at`). tok_s: new tokens a second of engine time, None at 0."""

    steps: int
    wall_ms: float
    num_new_tokens: int
    tok_s: float | None
    num_tokens: int
    padding_slots: int
    idle_slots: int
    num_recomputed: int
    num_cached: int
    num_preemptions: int
    peak_blocks: int
    peak_block_bytes: int
    num_finished: int

    @property
    def wasted_slots(self) -> int:
        return self.padding_slots + self.idle_slots


@dataclass(frozen=True)
class AloneComparison:
    """One request batched and alone in float32 (`batch_alone.against_alone`): what its neighbours changed.

    largest_logit_difference: over all logits of the tokens up to and including the first that differs, at output index
    `largest_at`. smallest_margin: the least distance between the two best raw logits among the same, at `margin_at`: a
    greedy choice can only turn where the margin is below twice the difference. first_difference: None if equal.
    """

    request_id: str
    params: SamplingParams
    batched_ids: tuple[int, ...]
    alone_ids: tuple[int, ...]
    first_difference: int | None
    largest_logit_difference: float
    largest_at: int
    smallest_margin: float
    margin_at: int

    @property
    def same(self) -> bool:
        return self.batched_ids == self.alone_ids

    @property
    def could_differ(self) -> bool:
        """True if the smallest margin is within reach of the difference: another order of adding may turn it."""
        return self.smallest_margin <= 2 * self.largest_logit_difference
