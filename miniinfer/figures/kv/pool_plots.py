"""Blocks and bytes as plotly figures. Each has a table twin in kv/tables.py with the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from miniinfer.figures.kv.shapes import GhostLine
from miniinfer.figures.kv.words import about, exact
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.trace.kv.pool import Block, PoolView
from miniinfer.trace.records import StepMeta

NUMBERED = 64  # blocks up to which each has its ref_count written above
DASHES = ("dash", "dot", "dashdot")


def block_kind(block: Block, run_id: str) -> str:
    """Whose it is, seen from one run."""
    if block.ref_count == 0:
        return "free"
    if run_id not in block.owners:
        return "other runs"
    return "this run, shared" if block.ref_count > 1 else "this run alone"


def pool_figure(pool: PoolView, cursor: tuple[int, int] | None, colours: Palette) -> go.Figure:
    """A column a physical block, filled as far as it holds positions. cursor: block and slot of the step looked at."""
    styles = {
        "this run alone": (colours.kv, ""), "this run, shared": (colours.kv, "/"), "other runs": (colours.cut, ""),
    }  # fmt: skip
    figure = go.Figure()
    used = [b for b in pool.blocks if b.ref_count]
    for kind, (colour, pattern) in styles.items():
        mine = [b for b in used if block_kind(b, pool.run_id) == kind]
        if mine:
            figure.add_bar(
                x=[b.number for b in mine], y=[b.filled for b in mine], name=kind, marker={"color": colour, "pattern": {
                    "shape": pattern, "fgcolor": colours.branch, "fillmode": "overlay", "size": 7, "solidity": 0.35}},
                customdata=[[b.ref_count, ", ".join(b.owners)] for b in mine],
                hovertemplate="block %{x}: %{y} filled, ref_count %{customdata[0]}, %{customdata[1]}<extra></extra>",
            )  # fmt: skip
    empty = [b for b in used if b.filled < pool.block_size]
    if empty:
        figure.add_bar(
            x=[b.number for b in empty], y=[pool.block_size - b.filled for b in empty], name="allocated, empty",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": colours.kv, "width": 1}},
            hovertemplate="block %{x}: %{y} empty slots<extra></extra>",
        )
    free = pool.free
    if free:
        figure.add_bar(
            x=list(free), y=[pool.block_size] * len(free), name="free",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": colours.grid, "width": 1}},
            hovertemplate="block %{x}: free<extra></extra>",
        )
    title = "physical block"
    if len(pool.blocks) <= NUMBERED:
        title += " (number above: ref_count)"
        figure.add_scatter(
            x=[b.number for b in used], y=[pool.block_size] * len(used), mode="text", textposition="top center",
            text=[f"{b.ref_count}" for b in used], textfont={"color": colours.quiet, "size": 11}, hoverinfo="skip",
            showlegend=False, cliponaxis=False,
        )
    if cursor is not None:
        block, slot = cursor
        figure.add_shape(
            type="rect", x0=block - 0.45, x1=block + 0.45, y0=slot, y1=slot + 1,
            line={"color": colours.step, "width": 2},
        )
    figure.update_xaxes(title=title, range=[-0.6, len(pool.blocks) - 0.4],
                        dtick=1 if len(pool.blocks) <= 32 else None)  # fmt: skip
    figure.update_yaxes(title="slots", range=[0, pool.block_size * 1.12], nticks=6)
    plain(figure, colours, 250, barmode="stack")
    return figure.update_layout(bargap=0.12)


def block_sizes_figure(table: pd.DataFrame, colours: Palette) -> go.Figure:
    """The same positions in blocks of other sizes: what holds something, and what is empty."""
    marks = zip(table["block size"], table[""], strict=True)
    sizes = [f"{size} ({mark})" if mark else f"{size}" for size, mark in marks]
    figure = go.Figure()
    used = table["allocated bytes"] - table["wasted bytes"]
    figure.add_bar(x=sizes, y=used, name="used", marker_color=colours.kv, customdata=[exact(int(b)) for b in used],
                   hovertemplate="used %{customdata}<extra></extra>")  # fmt: skip
    figure.add_bar(
        x=sizes, y=table["wasted bytes"], name="empty slots of the last block", customdata=[
            f"{exact(int(b))}, {share:.1%}" for b, share in zip(table["wasted bytes"], table["wasted"], strict=True)
        ],
        marker={"color": "rgba(0,0,0,0)", "line": {"color": colours.kv, "width": 1}},
        hovertemplate="empty %{customdata}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title="block size", type="category")
    top = float(table["allocated bytes"].max()) if len(table) else 0.0
    _byte_axis(figure, top)
    return plain(figure, colours, 230, barmode="stack")


def steps_figure(steps: Sequence[StepMeta], cursor: int, colours: Palette, *, log: bool) -> go.Figure:
    """Used, allocated and reserved after every step of the run, as they were counted then."""
    figure = go.Figure()
    x = [m.step for m in steps]
    lines = (
        ("used", [m.kv_used_bytes for m in steps], colours.kv, "solid", "linear"),
        ("allocated", [m.kv_allocated_bytes for m in steps], colours.kv, "dot", "hv"),
        ("reserved", [m.kv_reserved_bytes for m in steps], colours.quiet, "dash", "hv"),
    )
    for name, values, colour, dash, shape in lines:
        figure.add_scatter(
            x=x, y=values, name=name, mode="lines+markers" if len(steps) <= 40 else "lines", marker={"size": 5},
            line={"color": colour, "width": 2.5 if name == "used" else 2, "dash": dash, "shape": shape},
            customdata=[exact(v) for v in values], hovertemplate=f"step %{{x}}: {name} %{{customdata}}<extra></extra>",
        )
    if steps:
        figure.add_vline(x=cursor, line={"color": colours.step, "width": 1.5})
    figure.update_xaxes(title="step", dtick=max(1, len(steps) // 12), range=[0.5, len(steps) + 0.5])
    if log:
        figure.update_yaxes(type="log", dtick=1, exponentformat="none")
    least = min((m.kv_used_bytes for m in steps), default=1)
    _byte_axis(figure, max((m.kv_reserved_bytes for m in steps), default=1), log=log, least=least)
    return plain(figure, colours, 300)


def growth_figure(
    lines: Sequence[GhostLine], dots: Sequence[tuple[int, int]], card: tuple[str, int], colours: Palette,
    *, log_x: bool, log_y: bool,
) -> go.Figure:
    """Bytes over the length, each line as far as its context reaches, and where the card is full.

    dots: (positions, bytes) counted in the run's own steps. card: its name and bytes.
    """
    figure = go.Figure()
    num_own = sum(line.own for line in lines)
    series = (*colours.series[:2], *colours.series[3:])  # without the one that looks like the cache's own
    longest = max((line.shape.context_length for line in lines), default=1)
    for i, line in enumerate(lines):
        xs = _lengths(line.shape.context_length)
        ys = [line.at(x) for x in xs]
        other = i - num_own  # place among the well-known models
        colour = colours.kv if other < 0 else series[other % len(series)]
        again = other >= len(series)  # the colours have been used once
        dash = "solid" if line.actual else DASHES[i % 3] if other < 0 or again else "solid"
        figure.add_scatter(
            x=xs, y=ys, mode="lines", name=line.label,
            line={"color": colour, "width": 4 if line.actual else 2, "dash": dash},
            customdata=[about(y) for y in ys],
            hovertemplate=f"{line.label}<br>%{{x:,}} positions: %{{customdata}}<extra></extra>",
        )
        full = line.full_at(card[1])
        if full:
            figure.add_scatter(
                x=[full], y=[card[1]], mode="markers", showlegend=False,
                marker={"symbol": "x-thin", "size": 11, "line": {"width": 3, "color": colour}, "color": colour},
                hovertemplate=f"{line.label} fills {card[0]} at {full:,} positions<extra></extra>",
            )
    if dots:
        figure.add_scatter(
            x=[n for n, _ in dots], y=[b for _, b in dots], mode="markers", name="counted in this run's steps",
            marker={"size": 7, "color": "rgba(0,0,0,0)", "line": {"color": colours.step, "width": 2}},
            customdata=[exact(b) for _, b in dots],
            hovertemplate="%{x:,} positions of this run: %{customdata}<extra></extra>",
        )
    highest = max((line.at(line.shape.context_length) for line in lines), default=1)
    if log_y or card[1] <= 1.6 * highest:
        figure.add_hline(y=card[1], line={"color": colours.text, "width": 1.5, "dash": "dash"})
        figure.add_annotation(
            x=0.005, xref="paper", y=_place(card[1], log_y), yanchor="bottom", xanchor="left", showarrow=False,
            text=f"{card[0]} full", font={"color": colours.text, "size": 12},
        )
        highest = max(highest, card[1])
    figure.update_xaxes(title="length in positions", type="log" if log_x else "linear",
                        range=None if log_x else [0, longest * 1.02])  # fmt: skip
    figure.update_xaxes(tickformat=",")
    if log_x:
        powers = [10**k for k in range(len(str(longest)))]
        figure.update_xaxes(tickvals=powers, ticktext=[f"{n:,}" for n in powers])
    figure.update_yaxes(type="log" if log_y else "linear")
    _byte_axis(figure, highest, log=log_y, least=min((line.at(1) for line in lines), default=1))
    plain(figure, colours, 430)
    return figure.update_layout(legend={"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top"},
                                margin={"t": 12})  # fmt: skip


def two_bars_figure(names: Sequence[str], values: Sequence[int], title: str, colours: Palette) -> go.Figure:
    """Bytes side by side, to see which bar is longer."""
    figure = go.Figure()
    figure.add_bar(
        x=list(values), y=list(names), orientation="h", width=0.6, marker_color=colours.kv, cliponaxis=False,
        text=[f" {exact(v)}" for v in values], textposition="outside", textfont={"color": colours.text},
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(title=title, range=[0, 1.3 * max(*values, 1)], showticklabels=False)
    return plain(figure, colours, 60 + 34 * len(names), showlegend=False)


def _lengths(context: int) -> list[int]:
    """From 1 to the context, close enough for both kinds of axes."""
    powers = [2**k for k in range(context.bit_length()) if 2**k < context]
    return [*powers, context]


def _place(value: float, log: bool) -> float:
    from math import log10

    return log10(value) if log else value


def _byte_axis(figure: go.Figure, top: float, *, log: bool = False, least: float = 1) -> None:
    """Ticks at round binary sizes, in words."""
    if log:
        low, high = max(0, int(least).bit_length() - 1), int(top).bit_length() + 1
        step = max(1, -(-(high - low) // 8))
        ticks = [2.0**k for k in range(low // step * step, high + 1, step)]
    else:
        step_bytes = 2.0 ** max(0, int(top / 4).bit_length() - 1)
        ticks = [step_bytes * k for k in range(9) if step_bytes * k <= 1.15 * top]
    figure.update_yaxes(tickvals=ticks, ticktext=[about(t) for t in ticks])
