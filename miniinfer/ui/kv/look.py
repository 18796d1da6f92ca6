"""What all views of the KV cache page look at: the run, the step of the cursor, and the layer, head and position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.figures.kv.shapes import KVShape, shape_of
from miniinfer.models.display import visible
from miniinfer.trace.kv.pool import PoolView, pool_view
from miniinfer.trace.kv.vectors import CachedVectors, Reading, cached_vectors, reading_of
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run
from miniinfer.ui.run_look import RunLook


@dataclass(frozen=True)
class KVLook(RunLook[Run]):
    """A run, live or recorded, at the step of the cursor."""

    @property
    def context_len(self) -> int:
        """Positions in the cache after the step looked at."""
        return self.meta.context_len if self.meta else 0

    @cached_property
    def shape(self) -> KVShape:
        return shape_of(self.run.info.model_name, self.run.info.model)

    @property
    def position_bytes(self) -> int:
        return self.run.info.model.kv_bytes_per_token(self.run.info.itemsize)

    def text(self, position: int) -> str:
        """The token at a position with every character visible."""
        return visible(self.run.tokens[position].text)


@dataclass(frozen=True)
class LiveLook(KVLook):
    """A live run: there is a cache to read."""

    live: LiveRun

    def pool(self) -> PoolView:
        """As it is now, whatever step is looked at."""
        return self.ask(lambda: pool_view(self.live, list(self.session.timeline)))

    def vectors(self, layer: int, kv_head: int) -> CachedVectors:
        """Up to the step looked at. Positions are only appended, so this is what the cache held then."""
        return self.ask(lambda: cached_vectors(self.live, layer, kv_head, self.context_len))

    def reading(self, cached: CachedVectors) -> Reading:
        return self.ask(lambda: reading_of(self.live, cached))


def thousands(frame: pd.DataFrame) -> dict[str, Any]:
    """Whole numbers of a table with their thousands set apart."""
    whole = [name for name in frame.columns if pd.api.types.is_integer_dtype(frame[name])]
    return {name: st.column_config.NumberColumn(format="localized") for name in whole}


def keep_within(key: str, default: int, least: int, most: int) -> None:
    """Put the value of a number field into its range before it is drawn: another run may have fewer."""
    value: Any = st.session_state.get(key, default)
    st.session_state[key] = min(max(value if isinstance(value, int) else default, least), most)
