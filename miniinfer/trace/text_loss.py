"""How surprised a model is by a text that is given to it: -ln of what it assigned to each token, before it came."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from miniinfer.config import SamplingParams

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine


@dataclass(frozen=True)
class TextLoss:
    """nats: for every token of the text but its first, -ln of its probability after those before it."""

    nats: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.nats)


class LossRun:
    """The text in one engine. In one pass it is a prefill; token by token every step adds one to the cache, as decode
    does. Every item of `work` is one step. Called in the engine's thread."""

    def __init__(self, engine: Engine, ids: Sequence[int], *, token_by_token: bool, skip: int = 0) -> None:
        """skip: leading tokens whose loss does not count, such as one that a fault has put in front."""
        self._engine = engine
        chunk = 1 if token_by_token else None
        self._seq = engine.add_request(ids, SamplingParams(max_new_tokens=0), prefill_chunk=chunk)
        self._skip = skip
        self._nats: list[float] = []

    def work(self) -> Iterator[int]:
        import torch

        from miniinfer.engine.lookup import logits_of

        ids = self._seq.token_ids
        while (state := self._engine.step(only=self._seq)) is not None:
            entry = state.scheduled[0]
            following = torch.tensor(ids[entry.start + 1 : entry.stop + 1])
            rows = logits_of(self._engine, state.final_norm_out[: len(following)]).log_softmax(-1)
            self._nats += (-rows.gather(1, following[:, None])[:, 0]).tolist()
            yield entry.stop

    def loss(self) -> TextLoss:
        return TextLoss(tuple(self._nats[self._skip :]))

    def close(self) -> None:
        self._engine.release(self._seq)
