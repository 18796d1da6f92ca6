"""Plotly figures of what a token costs. Pure functions of records and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import plotly.graph_objects as go

from miniinfer.figures.cost.words import GAP, megabytes, ms, stage_name
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.measure.groups import ATTENTION, BOOKKEEPING, MLP, SAMPLING, UNEMBED
from miniinfer.measure.records import Calibration, Curve, PrecisionComparison, StageTime, StepParts

Nesting = Literal["stage", "layer"]
ROOMY, NARROW = 0.14, 0.004  # shares of a step: room for two lines of text, and for a line around
GROUP_NAMES = {MLP: "MLP"}
SPACE = 0.02  # of the width, between two steps side by side


def group_colours(colours: Palette) -> dict[str, str]:
    """Attention is blue as everywhere; a sampler's amber; what is between the stages is grey."""
    brown, blue, _, rose, indigo, grey = colours.series
    return {ATTENTION: blue, MLP: indigo, UNEMBED: rose, SAMPLING: brown, BOOKKEEPING: grey, GAP: colours.cut}


def faded(colour: str) -> str:
    """#rrggbb at three quarters of its strength, so that neighbours can be told apart."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.72)"


def flame_figure(
    steps: Sequence[StepParts | None], order: Sequence[str], nesting: Nesting, colours: Palette, height: int,
    gap: str = GAP,
) -> go.Figure:
    """Steps side by side, each as wide as its time, its parts below it, and so on down to one stage of one layer.

    steps: None leaves its place empty. nesting: what stands under a part: its stages, each cut into layers where they
    are known by layer, or its layers, each cut into stages. gap: what the time between the stages is called.
    """
    width = (1 - SPACE * (len(steps) - 1)) / len(steps)
    places = [(place * (width + SPACE), step) for place, step in enumerate(steps)]
    figure = go.Figure([
        _icicle(step, order, nesting, colours, gap, (left, min(left + width, 1.0)))
        for left, step in places if step is not None
    ])  # fmt: skip
    plain(figure, colours, height, showlegend=False)
    return figure.update_layout(margin={"l": 0, "r": 0, "t": 0, "b": 0}, uniformtext={"minsize": 11, "mode": "hide"})


def _icicle(
    step: StepParts, order: Sequence[str], nesting: Nesting, colours: Palette, gap: str, across: tuple[float, float]
) -> go.Icicle:
    shown, whole = group_colours(colours), step.step_ms or 1.0
    what = f"prefill, {step.num_tokens} tokens" if step.phase == "prefill" else f"decode at {step.context_len}"
    # By id: label, id of what stands above, own time, colour.
    nodes: dict[str, tuple[str, str, float, str]] = {"step": (what, "", 0.0, colours.grid)}
    total = {"step": step.step_ms}
    parts: dict[str, list[StageTime]] = {}
    for stage in step.stages:
        parts.setdefault(stage.group, []).append(stage)
    for group, stages in parts.items():
        nodes[group] = (GROUP_NAMES.get(group, group), "step", 0.0, shown[group])
        for stage in stages:
            name = stage_name(stage.stage, order)
            layer = "" if stage.layer is None else f"layer {stage.layer}"
            labels = [name, layer] if nesting == "stage" else [layer or name, name if layer else ""]
            path = group
            for label in filter(None, labels):
                parent, path = path, f"{path}/{label}"
                odd = label == layer and stage.layer is not None and stage.layer % 2 == 1
                nodes.setdefault(path, (label, parent, 0.0, faded(shown[group]) if odd else shown[group]))
            label, parent, own, colour = nodes[path]
            nodes[path] = (label, parent, own + stage.ms, colour)
    nodes[GAP] = (gap, "step", max(step.gap_ms, 0.0), shown[GAP])
    for key, (_, _, own, _) in nodes.items():
        above = key
        while above and above != "step":
            total[above] = total.get(above, 0.0) + own
            above = nodes[above][1]
    keys = list(nodes)
    widths = [1 if total[k] > NARROW * whole else 0 for k in keys]  # a line around a sliver would hide it
    return go.Icicle(
        ids=keys, labels=[nodes[k][0] for k in keys], parents=[nodes[k][1] for k in keys],
        values=[nodes[k][2] for k in keys], branchvalues="remainder", sort=False, tiling={"orientation": "v"},
        marker={"colors": [nodes[k][3] for k in keys], "line": {"width": widths, "color": colours.grid}},
        text=[f"{ms(total[k])}, {total[k] / whole:.1%}" for k in keys], leaf={"opacity": 1},
        texttemplate=["%{label}<br>%{text}" if total[k] > ROOMY * whole else "%{label}" for k in keys],
        hovertemplate="%{label}<br>%{text}<extra></extra>", pathbar={"visible": False}, domain={"x": across},
    )


def curve_bytes_figure(curve: Curve, colours: Palette, height: int) -> go.Figure:
    """What one token moves, by part, over the positions in the cache."""
    figure = go.Figure()
    xs = [c.context_len for c in curve.costs]
    parts = (
        ("weights", [c.weight_bytes for c in curve.costs], colours.series[4]),
        ("KV cache", [c.kv_bytes for c in curve.costs], colours.series[2]),
        ("everything else", [c.other_bytes for c in curve.costs], colours.series[5]),
    )
    for name, values, colour in parts:
        figure.add_scatter(
            x=xs, y=[v / 1e6 for v in values], mode="lines", name=name, stackgroup="bytes",
            line={"color": colour, "width": 1.5}, hovertemplate="%{y:,.1f} MB",
        )
    figure.update_xaxes(title="positions in the cache", rangemode="tozero")
    figure.update_yaxes(title="MB a token (computed)", rangemode="tozero")
    figure.update_layout(hovermode="x unified")
    return plain(figure, colours, height)


def curve_time_figure(
    curve: Curve, own: Sequence[tuple[int, float]], calibration: Calibration | None, colours: Palette, height: int
) -> go.Figure:
    """Measured steps with their 10th to 90th percentile, over the line that moving the bytes alone would take.

    own: positions and milliseconds of the run's own decode steps, as it was stepped.
    """
    figure = go.Figure()
    if calibration is not None:
        figure.add_scatter(
            x=[c.context_len for c in curve.costs], y=[calibration.seconds(c.num_bytes) * 1000 for c in curve.costs],
            mode="lines", name="moving the bytes (estimated)", hovertemplate="%{y:.1f} ms",
            line={"color": colours.series[2], "width": 2, "dash": "dash"},
        )
    if own:
        figure.add_scatter(
            x=[at for at, _ in own], y=[taken for _, taken in own], mode="markers",
            name="this run's decode steps (measured)",
            marker={"size": 6, "color": colours.series[5], "opacity": 0.7}, hovertemplate="%{y:.1f} ms",
        )
    steps = [t.step for t in curve.times]
    if steps:
        figure.add_scatter(
            x=[t.context_len for t in curve.times], y=[s.median_ms for s in steps], mode="lines+markers",
            name="step (measured)", line={"color": colours.series[1], "width": 2}, marker={"size": 9},
            error_y={"type": "data", "symmetric": False, "array": [s.p90_ms - s.median_ms for s in steps],
                     "arrayminus": [s.median_ms - s.p10_ms for s in steps], "width": 4},
            hovertemplate="%{y:.1f} ms",
        )  # fmt: skip
    figure.update_xaxes(title="positions in the cache", rangemode="tozero")
    figure.update_yaxes(title="ms a token", rangemode="tozero")
    return plain(figure, colours, height, showlegend=True)


def precision_figure(found: PrecisionComparison, colours: Palette, height: int) -> go.Figure:
    """Every precision relative to the first."""
    reference = found.runs[0]
    figure = go.Figure()
    names = ["weights", "KV cache a token", "prefill", "decode"]
    for run, colour in zip(found.runs, (colours.series[1], colours.series[0], colours.series[3]), strict=False):
        values = [
            run.weight_bytes / reference.weight_bytes, run.kv_bytes_per_token / reference.kv_bytes_per_token,
            run.prefill_ms / reference.prefill_ms, run.decode_ratio,
        ]
        shown = [
            megabytes(run.weight_bytes), f"{run.kv_bytes_per_token:,} B", ms(run.prefill_ms), ms(run.decode.median_ms)
        ]
        figure.add_bar(
            x=values, y=names, orientation="h", name=run.dtype, marker_color=colour, text=shown, textposition="outside",
            constraintext="none", cliponaxis=False, textfont={"size": 11, "color": colours.text},
            hovertemplate="%{y}: %{text}, %{x:.2f} of " + reference.dtype + "<extra></extra>",
        )
    longest = max(max(bar.x) for bar in figure.data)
    # A bar's value stands behind it, at its full size however many bars share the height.
    figure.update_xaxes(range=[0, longest * 1.15], tickformat=".0%", title=f"of {reference.dtype}")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return plain(figure, colours, height, barmode="group")
