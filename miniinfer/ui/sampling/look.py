"""What all views of the sampling page look at: the place in the run, and the sampler's record with these settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st

from miniinfer.config import SamplingParams
from miniinfer.figures.quoting import quoted
from miniinfer.models.display import display_bytes
from miniinfer.trace.sampling.place import Place
from miniinfer.trace.sampling.sampling import Sampling, sampling_of
from miniinfer.ui.run_look import LiveRunLook

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel


PROBABILITY = st.column_config.NumberColumn(format="%.3g")  # from 0 to 1, small ones too
BEFORE = 8  # tokens of the text before a place that a sentence quotes


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

    def before(self, place: Place) -> str:
        """The end of the text that stands before a place, in quotation marks."""
        ids = place.prompt_ids + place.output_ids
        return quoted(("…" if len(ids) > BEFORE else "") + "".join(map(self.text, ids[-BEFORE:])))

    @property
    def is_what_if(self) -> bool:
        return self.params != self.place.params


def probabilities(*columns: str) -> dict[str, Any]:
    """How these columns of a table are shown."""
    return dict.fromkeys(columns, PROBABILITY)


def texts_of(model: LoadedModel) -> tuple[str, ...]:
    """The texts of the whole vocabulary, by id."""
    return _texts(model.token_bytes)


@lru_cache(maxsize=2)
def _texts(token_bytes: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(display_bytes(data) for data in token_bytes)
