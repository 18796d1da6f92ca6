"""Attention in words: labels of positions, what a row reads, what is missing from a recorded run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miniinfer.figures.sampling.words import for_plotly, percent
from miniinfer.trace.records import FloatArray

PositionText = Callable[[int], str]  # the token at a position, with every character visible
LONGEST = 12  # characters of a token in a label

SINK = (
    "Softmax makes every row sum to 1, so a head that has nothing to look for must still put its weight somewhere. "
    "Models learn to park it on the first token, which every position can see: its value vector is short there, so "
    "that the weight adds little. That is why the first column is bright in so many heads; it is not a bug, and the "
    "token itself does not matter. Hiding it leaves every number as it is and shows the rest."
)
RECORDED = (
    "This recorded run holds the weights after softmax only, with 8 bits each (“≈”). The queries, keys and values that "
    "the products, the mix and the rotation are made of, and the model that a knock-out needs, are there "
)


def share_of(part: float) -> str:
    """12.3 %, or less than nothing: −1.5 %."""
    return f"{100 * part:.1f} %".replace("-", "\u2212")


def short(text: str) -> str:
    """At most LONGEST characters."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def label(position: int, text: PositionText) -> str:
    """Position and token, as a label of an axis; different for each position."""
    return f"{for_plotly(short(text(position)))} {position}"


def cell_label(start: int, cell: int, length: int) -> str:
    """The positions that one pooled cell covers."""
    last = min(start + cell, length) - 1
    return str(start) if last == start else f"{start}–{last}"


def reads_sentence(weights: FloatArray, text: PositionText, *, about: bool = False) -> str:
    """What one row [C] reads: the first token's part, then the two strongest others. about: 8 bits only."""
    sign = "≈ " if about else ""
    first = f"{sign}{percent(float(weights[0]))} of its weight is on the first token"
    others = np.argsort(-weights[1:], kind="stable")[:2] + 1
    if not len(others):
        return f"{first}: there is no other."
    named = " and ".join(f"{sign}{percent(float(weights[j]))} on “{text(int(j))}” at {j}" for j in others)
    return f"{first}, {named}."
