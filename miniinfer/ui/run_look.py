"""What the views of a page look at: a run at the step of the cursor, in the page's colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import streamlit as st

from miniinfer.figures.palette import Palette, palette
from miniinfer.figures.quoting import quoted
from miniinfer.models.display import display_bytes, visible
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import StepMeta
from miniinfer.trace.run import Run
from miniinfer.ui.sessions.session import Session

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

PLOT = {"displayModeBar": False}  # streamlit's own menu saves tables; a figure here is looked at

AnyRun = TypeVar("AnyRun", bound=Run)
T = TypeVar("T")


@dataclass(frozen=True)
class RunLook(Generic[AnyRun]):
    """A run, live or recorded, looked at without touching it."""

    session: Session
    run: AnyRun

    @property
    def step(self) -> int:
        """The one at the cursor; 0 before the first."""
        return self.session.timeline.cursor

    @property
    def meta(self) -> StepMeta | None:
        """Of the step at the cursor; None before the first one."""
        return self.run.steps[self.step - 1] if 0 < self.step <= len(self.run.steps) else None

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")

    def ask(self, question: Callable[[], T]) -> T:
        """Something that may touch tensors."""
        return self.session.look([self.run], question)


def first_step_tokens(run: LiveRun) -> int:
    """Prompt tokens that the run's first step sends through the model."""
    most = run.engine.config.max_num_batched_tokens if run.info.one_pass else 1
    return min(run.info.num_prompt_tokens, most)


class LiveRunLook(RunLook[LiveRun]):
    """One with an engine behind it."""

    @property
    def model(self) -> LoadedModel:
        """That of the run; another one may have been chosen for new runs since."""
        return cast("LoadedModel", self.run.engine.model)

    def text(self, token_id: int) -> str:
        """A token's text with every character visible."""
        return visible(display_bytes(self.model.token_bytes[token_id]))

    def quoted(self, token_id: int) -> str:
        """The same in quotation marks, for a sentence."""
        return quoted(self.text(token_id))
