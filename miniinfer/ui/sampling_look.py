"""What all views of the sampling page look at: the place in the run, and the sampler's record with these settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

import streamlit as st

from miniinfer.config import SamplingParams
from miniinfer.errors import MiniInferError
from miniinfer.figures.palette import Palette, palette
from miniinfer.models.display import display_bytes, visible
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.place import Place
from miniinfer.trace.sampling import Sampling, sampling_of
from miniinfer.ui.session import Session

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

PLOT = {"displayModeBar": False}  # streamlit's own menu saves tables; a figure here is looked at


@dataclass(frozen=True)
class Look:
    """One step of a live run, and the settings that are tried on it."""

    session: Session
    run: LiveRun
    place: Place
    params: SamplingParams

    @property
    def model(self) -> LoadedModel:
        """The one that the run was made with; another may have been chosen for new runs since."""
        return cast("LoadedModel", self.run.engine.model)

    def sampling(self, params: SamplingParams | None = None, coin: float | None = None) -> Sampling:
        """With these settings, by default the ones on the page. No model runs."""
        place = self.place
        return self.session.look(
            [self.run],
            lambda: sampling_of(place.logits, params or self.params, place.prompt_ids, place.output_ids, coin),
        )

    @cached_property
    def now(self) -> Sampling:
        return self.sampling()

    @property
    def is_what_if(self) -> bool:
        return self.params != self.place.params

    def text(self, token_id: int) -> str:
        """A token's text with every character visible."""
        return visible(texts_of(self.model)[token_id])

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")


def texts_of(model: LoadedModel) -> tuple[str, ...]:
    """The texts of the whole vocabulary, by id."""
    return _texts(model.token_bytes)


@lru_cache(maxsize=2)
def _texts(token_bytes: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(display_bytes(data) for data in token_bytes)


def run_action(action: Callable[[], object]) -> None:
    """Do something to the session's runs and draw everything anew; what it refuses is said at the head of the page."""
    try:
        action()
        st.session_state["sampling_error"] = None
    except MiniInferError as error:
        st.session_state["sampling_error"] = str(error)
    st.rerun()
