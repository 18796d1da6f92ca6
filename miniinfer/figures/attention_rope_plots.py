"""RoPE as pictures: pairs of dimensions turned by their angles, and the score over the distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.trace.rotation import Rotation


def spread_pairs(rotation: Rotation, count: int) -> list[int]:
    """Pairs from the fastest to the slowest, evenly spread."""
    last = len(rotation.frequencies) - 1
    return sorted({round(i * last / (count - 1)) for i in range(count)})


def strongest_pairs(rotation: Rotation, count: int) -> list[int]:
    """Those that give most to q . k, whichever sign; the strongest first."""
    return np.argsort(-np.abs(rotation.products), kind="stable")[:count].tolist()


def pairs_figure(rotation: Rotation, pairs: Sequence[int], colours: Palette, height: int) -> go.Figure:
    """One small plane a pair: q and k before (dotted) and after (solid) the turn; each plane has its own scale."""
    figure = make_subplots(rows=1, cols=len(pairs), horizontal_spacing=0.012)
    vectors = (
        ("q before", rotation.q_before, colours.step, "dot"), ("q after", rotation.q_after, colours.step, "solid"),
        ("k before", rotation.k_before, colours.kv, "dot"), ("k after", rotation.k_after, colours.kv, "solid"),
    )  # fmt: skip
    for column, i in enumerate(pairs, 1):
        reach = 1.1 * max(float(np.linalg.norm(values[i])) for _, values, _, _ in vectors) or 1.0
        for name, values, colour, dash in vectors:
            x, y = map(float, values[i])
            figure.add_scatter(
                x=[0, x], y=[0, y], mode="lines+markers", name=name, legendgroup=name, showlegend=column == 1,
                line={"color": colour, "dash": dash, "width": 2.5 if dash == "solid" else 1.5},
                marker={"size": [0, 7 if dash == "solid" else 5], "color": colour},
                hovertemplate=f"{name}, pair {i}: (%{{x:.3f}}, %{{y:.3f}})<extra></extra>", row=1, col=column,
            )
        figure.update_xaxes(range=[-reach, reach], row=1, col=column)
        figure.update_yaxes(
            range=[-reach, reach], scaleanchor=f"x{column if column > 1 else ''}", row=1, col=column
        )
        angle = rotation.position * float(rotation.frequencies[i])
        figure.add_annotation(
            x=0, y=reach, xanchor="center", yanchor="bottom", row=1, col=column, showarrow=False,
            font={"size": 11, "color": colours.quiet},
            text=f"pair {i}<br>{_degrees(float(rotation.frequencies[i]))} a position<br>q by {_turns(angle)}",
        )
        figure.add_annotation(
            x=0, y=-reach, xanchor="center", yanchor="top", row=1, col=column, showarrow=False,
            font={"size": 11, "color": colours.text}, text="gives " + signed(float(rotation.products[i])),
        )
    figure.update_xaxes(showticklabels=False, showgrid=True, nticks=3)
    figure.update_yaxes(showticklabels=False, showgrid=True, nticks=3)
    figure = plain(figure, colours, height)
    return figure.update_layout(margin={"t": 84, "b": 20}, legend={"y": 1.34})


def _degrees(angle: float) -> str:
    value = float(np.degrees(angle))
    return f"{value:.2g}°" if value < 10 else f"{value:.0f}°"


def _turns(angle: float) -> str:
    turns = angle / (2 * np.pi)
    return _degrees(angle) if turns < 1 else f"{turns:,.1f} turns"


def signed(value: float) -> str:
    """+1.234 or −1.234, with a real minus."""
    return f"{value:+.3f}".replace("-", "\u2212")


def distance_figure(rotation: Rotation, colours: Palette, height: int) -> go.Figure:
    """The score that these two vectors would have at every distance; the dot is where they stand."""
    at = rotation.position - rotation.key
    figure = go.Figure()
    figure.add_scatter(
        x=rotation.distances, y=rotation.scores, mode="lines", line={"color": colours.series[1], "width": 2},
        hovertemplate="distance %{x}: score %{y:.4f}<extra></extra>", showlegend=False,
    )
    if at < len(rotation.scores):
        figure.add_scatter(
            x=[at], y=[rotation.scores[at]], mode="markers", showlegend=False,
            marker={"color": colours.step, "size": 11}, hovertemplate="here: distance %{x}, %{y:.4f}<extra></extra>",
        )
    figure.update_xaxes(title="distance of the query from the key, in positions", rangemode="tozero")
    figure.update_yaxes(title="q · k / √D")
    return plain(figure, colours, height, showlegend=False)
