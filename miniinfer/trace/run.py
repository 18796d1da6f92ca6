"""A run as the panels see it: one interface for a live run (engine behind it) and a recorded one (a file behind it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from miniinfer.config import ModelConfig, SamplingParams
from miniinfer.trace.records import ByteArray, FloatArray, NextToken, PooledMaps, StepMeta, TokenInfo


@dataclass(frozen=True)
class ForceToken:
    """The edit that starts a branch: in step `step` this token is chosen, whatever the draw says."""

    step: int
    token_id: int


@dataclass(frozen=True)
class ChangeParams:
    """The edit that starts a branch: from step `step` on, other sampling settings."""

    step: int
    params: SamplingParams


Edit = ForceToken | ChangeParams


@dataclass(frozen=True)
class RunInfo:
    """What stays the same in a run from its first step to its last."""

    run_id: str
    name: str
    kind: Literal["live", "recorded", "saved"]
    model_name: str
    model: ModelConfig
    device: str
    dtype: str
    itemsize: int  # bytes of one number in the KV cache
    weight_bytes: int
    block_size: int
    context_length: int
    chat: bool
    prompt: str  # as typed
    num_prompt_tokens: int
    params: SamplingParams
    one_pass: bool  # prefill in one pass, or token by token
    default_head: tuple[int, int] | None  # (layer, head), chosen from the prompt's own rows once it is prefilled
    parent: str | None = None
    edit: Edit | None = None
    backend: str = "torch"  # what its engine computes with: torch, native or graph
    resumed: int = 0  # the first so many steps came back from a saved run: their times were measured before that


class Run(Protocol):
    """Everything a panel can ask. Nothing here runs the model again; attention rows come back from kept queries."""

    @property
    def info(self) -> RunInfo: ...

    @property
    def finish_reason(self) -> str | None: ...

    @property
    def steps(self) -> list[StepMeta]:
        """Steps 1.. of the run, in order."""
        ...

    @property
    def tokens(self) -> list[TokenInfo]:
        """Prompt tokens, then one per sampled or forced token."""
        ...

    def next_token(self, step: int) -> NextToken | None:
        """The distribution that step's draw used; None while a prefill is unfinished."""
        ...

    def next_at(self, position: int) -> NextToken:
        """What the model would have said after `position`."""
        ...

    def rows_at(self, position: int) -> ByteArray | None:
        """[L, H, position + 1] u8: every head's attention row of one position; None where a recording kept none."""
        ...

    def head_rows(self, layer: int, head: int, start: int, stop: int) -> ByteArray:
        """Rows start .. stop - 1 of one head's pattern, row i with its i + 1 entries, concatenated, u8."""
        ...

    def head_map(self, layer: int, head: int, cell: int) -> ByteArray:
        """[B, B] u8: one head's whole pattern, max-pooled with `cell` positions a cell."""
        ...

    def exact_row(self, layer: int, head: int, position: int) -> FloatArray | None:
        """[position + 1] float32: one head's row as the model computed it; None where only 8 bits of it were kept."""
        ...

    def pooled_maps(self, step: int) -> PooledMaps | None: ...

    def kv_norms(self, start: int) -> FloatArray:
        """[n, L, 2] for positions start.. in the cache."""
        ...

    def token_probs(self, start: int) -> FloatArray:
        """The model's own probability for the token standing at each position from `start`; NaN at position 0."""
        ...
