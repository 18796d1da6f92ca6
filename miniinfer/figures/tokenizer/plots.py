"""The tokenizer page as plotly figures. Each has a table twin with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import BELOW_BUTTONS, Spec, spec, title
from miniinfer.figures.sampling.words import for_plotly
from miniinfer.tokenization.costs import TextCost
from miniinfer.trace.embedding import EmbeddedText, Neighbours

ROW = 22  # px of a bar
CELLS = 15  # px of a row of the heat map
IN_SCALE = 0.995  # of all values lie inside the colour scale; the few beyond have its end colours

TokenText = Callable[[int], str]


def costs_figure(costs: Sequence[TextCost], yours: str, colours: Palette) -> Spec:
    """A bar for each language, the fewest tokens first; the page's own text in the colour of what is looked at."""
    y = list(range(len(costs)))
    bars = {
        "type": "bar", "x": [c.tokens for c in costs], "y": y, "orientation": "h", "width": 0.66,
        "marker": {"color": [colours.step if c.name == yours else colours.quiet for c in costs]},
        "text": [f"{c.tokens:,}" for c in costs], "textposition": "outside", "cliponaxis": False,
        "customdata": [(c.bytes, c.characters, c.per_byte) for c in costs],
        "hovertemplate": "%{x:,} tokens<br>%{customdata[0]:,} bytes, %{customdata[1]:,} characters<br>"
        "%{customdata[2]:.3f} tokens per byte<extra></extra>",
    }  # fmt: skip
    marks = {
        "type": "scatter", "x": [c.characters for c in costs], "y": y, "mode": "markers", "name": "characters",
        "marker": {"symbol": "line-ns", "size": 12, "line": {"width": 2, "color": colours.text}},
        "hovertemplate": "%{x:,} characters<extra></extra>",
    }  # fmt: skip
    most = max((max(c.tokens, c.characters) for c in costs), default=1)
    across = {"range": [0, most * 1.08], "title": title("tokens (bar) and characters (mark)")}
    down = _names(y, [for_plotly(c.name) for c in costs])
    return spec([bars, marks], colours, ROW * len(y) + 76, x=across, y=down, showlegend=False, margin=BELOW_BUTTONS)


def rows_figure(embedded: EmbeddedText, first: int, text: TokenText, chosen: int, colours: Palette) -> Spec:
    """X as it goes in: a row for each token, a column for each of the E dimensions. first: position of the first row;
    chosen: the position looked at."""
    count = len(embedded.ids)
    labels = [f"{for_plotly(text(token_id))}  {first + i}" for i, token_id in enumerate(embedded.ids)]
    labels = [f"<b>{label}</b>" if first + i == chosen else label for i, label in enumerate(labels)]
    scale = colour_limit(embedded)
    cells = {
        "type": "heatmap", "z": embedded.rows, "y": labels, "zmin": -scale, "zmax": scale,
        "colorscale": [[i / (len(colours.signed) - 1), colour] for i, colour in enumerate(colours.signed)],
        "colorbar": {"title": title("value"), "thickness": 10, "len": 1.0, "outlinewidth": 0},
        "hovertemplate": "%{y}<br>dimension %{x}: %{z:.5f}<extra></extra>",
    }  # fmt: skip
    across = {"title": title(f"dimension, 0 to {embedded.rows.shape[1] - 1}"), "showgrid": False}
    down = {"type": "category", "dtick": 1, "autorange": "reversed", "showgrid": False}
    return spec(
        [cells], colours, max(276, CELLS * count + 76), x=across, y=down, showlegend=False, margin=BELOW_BUTTONS
    )


def colour_limit(embedded: EmbeddedText) -> float:
    """Where the colour scale ends, on both sides of 0."""
    return float(np.quantile(np.abs(embedded.rows), IN_SCALE)) if embedded.rows.size else 1.0


def neighbours_figure(found: Neighbours, text: TokenText, colours: Palette) -> Spec:
    """A bar for each of the nearest rows, as long as its cosine."""
    y = list(range(len(found.ids)))
    bars = {
        "type": "bar", "x": found.cosines, "y": y, "orientation": "h", "width": 0.66,
        "marker": {"color": colours.quiet}, "text": [f"{cosine:.3f}" for cosine in found.cosines],
        "textposition": "outside", "cliponaxis": False,
        "customdata": [(int(i), float(n)) for i, n in zip(found.ids, found.norms, strict=True)],
        "hovertemplate": "id %{customdata[0]}<br>cosine %{x:.5f}<br>norm %{customdata[1]:.4f}<extra></extra>",
    }  # fmt: skip
    labels = [for_plotly(text(int(token_id))) for token_id in found.ids]
    low = min(0.0, float(found.cosines.min(initial=0.0)))
    across = {"range": [low, 1.12], "nticks": 6, "title": title("cosine with the chosen row")}
    return spec(
        [bars], colours, ROW * len(y) + 76, x=across, y=_names(y, labels), showlegend=False, margin=BELOW_BUTTONS
    )


def _names(places: list[int], labels: list[str]) -> Spec:
    """An axis of names from top to bottom."""
    return {"tickvals": places, "ticktext": labels, "autorange": "reversed", "showgrid": False}
