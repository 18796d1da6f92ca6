"""What all views inside a step look at: the run, the step, and one position of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

from miniinfer.figures.palette import Palette, palette
from miniinfer.models.display import display_bytes, visible
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.inside.stage_rows import StageRows, read_stage_rows
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.replay import StepRows
from miniinfer.ui.sessions.in_parts import do_in_parts
from miniinfer.ui.sessions.session import Session

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

T = TypeVar("T")
KEPT = 8  # answers of replays that a tab keeps, so that another view of the same step does not run it again
CACHE = "inside_answers"


@dataclass(frozen=True)
class InsideLook:
    """rows: of the step. position: the one looked at, among them."""

    session: Session
    run: LiveRun
    rows: StepRows
    position: int

    @property
    def row(self) -> int:
        return self.position - self.rows.start

    @property
    def model(self) -> LoadedModel:
        return cast("LoadedModel", self.run.engine.model)

    @property
    def layers(self) -> int:
        return self.run.info.model.num_layers

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")

    def text(self, token_id: int) -> str:
        """A token's text with every character visible."""
        return visible(display_bytes(self.model.token_bytes[token_id]))

    def text_at(self, position: int) -> str:
        return self.text(self.run.seq.token_ids[position])

    def ask(self, question: Callable[[StepInside], T]) -> T:
        """Something about the parked step. Raises MiniInferError."""
        return self.session.inside.use(self.run, self.rows.step, question)

    def kept(self, name: str, answer: Callable[[], T]) -> T:
        """Answered once for each step and position."""
        key = (name, self.run.info.run_id, id(self.run), self.rows, self.position)
        kept: dict[Any, Any] = st.session_state.setdefault(CACHE, {})
        if key not in kept:
            found = answer()
            while len(kept) >= KEPT:
                del kept[next(iter(kept))]
            kept[key] = found
        return cast("T", kept[key])

    def replay(self, name: str, start: Callable[[], Parts[T]]) -> T:
        """Something that replays the step from its beginning, layer by layer; kept."""

        def answer() -> T:
            work, count = start(), self.rows.count
            words = f"Replaying step {self.rows.step}, {count:,} {'position' if count == 1 else 'positions'}"
            with self.session.inside.replaying(self.run, work) as in_engine:
                return do_in_parts(in_engine, work, words)

        return self.kept(name, answer)

    def stage_rows(self) -> StageRows:
        """What every stage wrote for the position looked at."""
        return self.replay("rows", lambda: read_stage_rows(self.run, self.rows, self.position))
