"""The logit lens as one picture: a line a layer, the best tokens of each, coloured by probability."""

from __future__ import annotations

from miniinfer.figures.inside.plots import FONT, SHARES, is_dark, ramp
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import Spec
from miniinfer.figures.sampling.words import TokenText, for_plotly, percent
from miniinfer.trace.inside.logit_lens import LogitLens

LONGEST = 14  # characters of a token in a cell
ROW = 17  # px


def lens_figure(lens: LogitLens, text: TokenText, colours: Palette, height: int) -> Spec:
    """The final token is set in bold where it is among the best."""
    dark = is_dark(colours)
    labels = [[_cell(text(int(i)), int(i) == lens.final_id) for i in row] for row in lens.top_ids]
    shares = [[percent(float(p)) for p in row] for row in lens.top_probs]
    columns = ["best", *(str(k + 1) for k in range(1, lens.top_ids.shape[1]))]
    cells = {
        "type": "heatmap", "z": lens.top_probs, "x": columns, "y": lens.labels, "text": labels, "customdata": shares,
        "texttemplate": "%{text}", "textfont": {"size": 11}, "colorscale": ramp(SHARES[dark]), "zmin": 0, "zmax": 1,
        "xgap": 1, "ygap": 1, "hovertemplate": "%{y}, %{x}: %{text} %{customdata}<extra></extra>",
        "colorbar": {
            "thickness": 10, "outlinewidth": 0, "tickformat": ".0%", "tickfont": {"size": 11},
            "title": {"text": "probability", "side": "right", "font": {"size": 11}},
        },
    }  # fmt: skip
    axis = {"showgrid": False, "fixedrange": True}
    return {
        "data": [cells],
        "layout": {
            "xaxis": {**axis, "type": "category", "side": "top"},
            "yaxis": {**axis, "autorange": "reversed", "automargin": True, "tickfont": {"size": 11}},
            "height": height, "margin": {"l": 4, "r": 4, "t": 22, "b": 4}, "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)", "font": {"size": 12, "color": colours.text, "family": FONT},
            "dragmode": False,
        },
    }  # fmt: skip


def _cell(text: str, final: bool) -> str:
    short = for_plotly(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
    return f"<b>{short}</b>" if final else short
