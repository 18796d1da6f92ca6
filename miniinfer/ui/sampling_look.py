"""What all views of the sampling page look at: the place in the run, and the sampler's record with these settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from miniinfer.config import SamplingParams
from miniinfer.models.display import display_bytes
from miniinfer.trace.place import Place
from miniinfer.trace.sampling import Sampling, sampling_of
from miniinfer.ui.run_look import LiveRunLook

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel


@dataclass(frozen=True)
class Look(LiveRunLook):
    """One step of a live run, and the settings that are tried on it."""

    place: Place
    params: SamplingParams

    def sampling(self, params: SamplingParams | None = None, coin: float | None = None) -> Sampling:
        """With these settings, by default the ones on the page. No model runs."""
        place = self.place
        return self.ask(
            lambda: sampling_of(place.logits, params or self.params, place.prompt_ids, place.output_ids, coin)
        )

    @cached_property
    def now(self) -> Sampling:
        return self.sampling()

    @property
    def is_what_if(self) -> bool:
        return self.params != self.place.params


def texts_of(model: LoadedModel) -> tuple[str, ...]:
    """The texts of the whole vocabulary, by id."""
    return _texts(model.token_bytes)


@lru_cache(maxsize=2)
def _texts(token_bytes: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(display_bytes(data) for data in token_bytes)
