"""What a batch run is asked to do: the requests, and how they are served. Standard library only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from miniinfer.config import POLICIES, EngineConfig, SamplingParams
from miniinfer.errors import BadInputError

Batching = Literal["continuous", "static"]
MAX_ARRIVAL = 1000  # steps; an engine that nobody needs for longer is not worth watching

POLICY_NAMES = {
    "fcfs": "first come, first served", "sjf": "shortest first", "prefill-first": "prefill first",
    "decode-first": "decode first",
}  # fmt: skip
assert set(POLICY_NAMES) == set(POLICIES)


@dataclass(frozen=True)
class BatchRequest:
    """A request as somebody asks it. arrival: so many steps are over when it comes (0: it is there from the start).

    chat: the prompt is a chat message; otherwise raw text. Raises BadInputError.
    """

    request_id: str
    prompt: str
    params: SamplingParams = field(default_factory=SamplingParams)
    arrival: int = 0
    chat: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.request_id, str) or not self.request_id.strip():
            raise BadInputError("Every request needs an id: a short text that no other request has.")
        if not isinstance(self.arrival, int) or isinstance(self.arrival, bool) or not 0 <= self.arrival <= MAX_ARRIVAL:
            raise BadInputError(
                f"The arrival of request {self.request_id!r} must be a whole number of steps from 0 to {MAX_ARRIVAL}, "
                f"not {self.arrival!r}."
            )


@dataclass(frozen=True)
class BatchSettings:
    """How the requests are served. Raises BadInputError.

    batching: "continuous": whoever is done leaves, and the next one joins in the next step; "static": a batch is
    formed, padded to its longest, and nobody joins before all of it is done. policy: see `config.POLICIES`; a static
    batch takes the first of the queue in that order.
    token_budget: the most slots that a step computes. num_blocks: the size of the pool, None: as many as the requests
    can need. paging off: a request takes all the blocks that it can ever need when it starts. prefix_caching: full
    blocks with the same beginning are shared and kept when free; it needs paging.
    """

    batching: Batching = "continuous"
    policy: str = "fcfs"
    token_budget: int = 256
    max_seqs: int = 16
    block_size: int = 16
    num_blocks: int | None = None
    paging: bool = True
    prefix_caching: bool = True

    def __post_init__(self) -> None:
        if self.batching not in ("continuous", "static"):
            raise BadInputError(f"Batching is continuous or static, not {self.batching!r}.")
        if self.policy not in POLICIES:
            raise BadInputError(f"The policy must be one of {', '.join(POLICIES)}, not {self.policy!r}.")
        for name in ("token_budget", "max_seqs", "block_size", "num_blocks"):
            value = getattr(self, name)
            if name == "num_blocks" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInputError(f"{NAMES[name]} must be a whole number above 0, not {value!r}.")

    @property
    def shares_prefixes(self) -> bool:
        return self.paging and self.prefix_caching

    def engine_config(self, num_blocks: int, chunk_blocks: int) -> EngineConfig:
        """The same settings in the engine's own words."""
        return EngineConfig(
            block_size=self.block_size, pool_chunk_blocks=chunk_blocks, max_blocks=num_blocks,
            max_num_batched_tokens=self.token_budget, max_num_seqs=self.max_seqs, policy=self.policy,
            batching=self.batching, reserve_blocks=not self.paging, prefix_caching=self.shares_prefixes,
        )  # fmt: skip


NAMES = {
    "token_budget": "The token budget", "max_seqs": "The number of sequences", "block_size": "The block size",
    "num_blocks": "The number of blocks",
}  # fmt: skip


def check_requests(requests: Sequence[BatchRequest]) -> None:
    """Raises BadInputError for an empty list, and for ids that are not different."""
    if not requests:
        raise BadInputError("There is no request to run: add at least one.")
    twice = [request_id for request_id, count in Counter(r.request_id for r in requests).items() if count > 1]
    if twice:
        raise BadInputError(f"The id {twice[0]!r} stands for more than one request: give each its own.")


def draw_arrivals(count: int, mean_gap: float, seed: int) -> tuple[int, ...]:
    """Arrival steps of `count` requests, in order: the first at 0, then exponential gaps with this mean, in steps.

    The same seed draws the same. Raises BadInputError.
    """
    if not 0 <= mean_gap <= MAX_ARRIVAL:
        raise BadInputError(f"The mean gap between two arrivals must be from 0 to {MAX_ARRIVAL} steps.")
    draw = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count):
        times.append(min(MAX_ARRIVAL, round(now)))
        now += draw.expovariate(1 / mean_gap) if mean_gap else 0.0
    return tuple(times)
