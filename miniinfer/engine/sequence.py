"""A sequence: the tokens of one request and how far they have come. Plain Python, and the one owner of these facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from miniinfer.config import SamplingParams


class SequenceStatus(StrEnum):
    WAITING = "waiting"  # not admitted yet, or preempted; it may hold blocks shared by a fork
    RUNNING = "running"  # takes part in steps
    FINISHED = "finished"  # finish_reason says why; its blocks stay until Engine.release


@dataclass(eq=False)
class Sequence:
    """Prompt and output of one request. Two sequences are equal only if they are the same object.

    token_ids holds prompt, then output. Keys and values of the first `num_computed_tokens` of them lie in the KV
    cache; position p lies in block `block_table[p // P]`, slot p % P. `forced` maps the output index of every token
    that somebody chose by hand to its id. `prefill_chunk` caps the prompt rows that one step may compute.
    """

    seq_id: str
    token_ids: list[int]
    num_prompt_tokens: int
    params: SamplingParams
    num_computed_tokens: int = 0
    block_table: list[int] = field(default_factory=list)
    status: SequenceStatus = SequenceStatus.WAITING
    finish_reason: str | None = None  # stop | length | context | abort
    error: str | None = None  # the sentence that says why a sequence was aborted by the engine
    forced: dict[int, int] = field(default_factory=dict)
    prefill_chunk: int | None = None
    arrival: int = 0  # its place in the order of arrival, given by the scheduler
    arrival_step: int = 0  # steps that the scheduler had planned by then
    num_cached_tokens: int = 0  # positions found in the prefix cache when it last started
    num_preemptions: int = 0
    block_hashes: list[bytes] = field(default_factory=list)  # of its first full blocks, as far as anybody asked

    @property
    def prompt_ids(self) -> list[int]:
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def output_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Also the index of the next output token, and so of its coin."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        """Rows that the model still has to compute before the next token can be sampled: 1 in decode."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def in_prefill(self) -> bool:
        """True while more than the newest token waits to be computed, or nothing was sampled or forced yet."""
        return self.num_uncomputed_tokens > 1 or self.num_output_tokens == 0

    @property
    def num_tokens_left(self) -> int:
        """Positions that it will still compute if it ends by its length."""
        return self.num_uncomputed_tokens + max(0, self.params.max_new_tokens - self.num_output_tokens)

    @property
    def final_num_positions(self) -> int:
        """Positions in the cache if it ends by its length: the last token needs none."""
        return max(self.num_tokens, self.num_prompt_tokens + self.params.max_new_tokens - 1)

    @property
    def finished(self) -> bool:
        return self.status is SequenceStatus.FINISHED

    def finish(self, reason: str, error: str | None = None) -> None:
        self.status = SequenceStatus.FINISHED
        self.finish_reason = reason
        self.error = error
