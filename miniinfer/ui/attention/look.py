"""What all views of the attention page look at: the run at its cursor, a head, a query position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from miniinfer.figures.palette import Palette, palette
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.trace.attention.one_head import HeadRow, head_row
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import FloatArray, TokenInfo
from miniinfer.trace.run import Run
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin, opened_fold

T = TypeVar("T")
LAYER, HEAD, POSITION, KEY = "attention_layer", "attention_head", "attention_position", "attention_key"


@dataclass(frozen=True)
class Look:
    """length: positions in the cache at the cursor; position: the query's, below length."""

    session: Session
    run: Run
    length: int
    layer: int
    head: int
    position: int
    hide_first: bool

    @property
    def live(self) -> LiveRun | None:
        """The run if there is an engine behind it: a recorded one has weights of 8 bits only."""
        return self.run if isinstance(self.run, LiveRun) else None

    @cached_property
    def tokens(self) -> list[TokenInfo]:
        return self.run.tokens

    def text(self, position: int) -> str:
        """The token at a position, with every character visible."""
        return visible(self.tokens[position].text)

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")

    @cached_property
    def row(self) -> HeadRow:
        """Of a live run."""
        run = self.live
        assert run is not None
        return self.ask(lambda: head_row(run, self.layer, self.head, self.position))

    @cached_property
    def weights(self) -> FloatArray:
        """[position + 1]: exact for a live run, from 8 bits for a recorded one."""
        if self.live is not None:
            return self.row.pattern
        kept = self.run.head_rows(self.layer, self.head, self.position, self.position + 1)
        return np.square(kept.astype(np.float32) / 255)

    def ask(self, question: Callable[[], T]) -> T:
        """Something that may touch tensors."""
        return self.session.look([self.run], question)

    @property
    def words(self) -> str:
        """What is looked at, for the title of a figure."""
        return f"Layer {self.layer}, head {self.head}, query at {self.position}"

    @property
    def kv_head(self) -> int:
        return self.head // self.run.info.model.group_size


def twin(title: str, key: str, make: Callable[[], pd.DataFrame], source: Provenance, file_name: str) -> None:
    """A folded table twin, made when it is opened."""
    if (folded := opened_fold(title, f"{key}_fold")) is not None:
        with folded:
            draw_table_twin(make(), key, source, file_name)


def choose_head(layer: int, head: int) -> None:
    """From a callback: the selectors above show it at once."""
    st.session_state[LAYER], st.session_state[HEAD] = layer, head


def head_picker(look: Look) -> Callable[[Any, Any], None]:
    """For a map of all heads: a click on one chooses it; anything else that a browser may send changes nothing."""
    model = look.run.info.model

    def pick(layer: Any, head: Any) -> None:
        if layer in range(model.num_layers) and head in range(model.num_heads):
            choose_head(int(layer), int(head))

    return pick
