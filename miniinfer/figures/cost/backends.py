"""The same step by several backends: figures, table and words. Pure functions of the records of measure/backends.py."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from miniinfer.figures.cost.words import GAP, megabytes, ms, rounds, stage_name, times
from miniinfer.figures.kv.words import listed
from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.measure.records import BackendComparison, BackendRun
from miniinfer.measure.summary import StageSplit, split_of

MOVING, ASKING, REST = "moving bytes", "asking torch", "everything else"
OTHERS = "all others"
ROOMY = 0.18  # of the longest bar: room for its milliseconds
SHOWN = 0.01  # of the slowest step: stages with less in every backend share a row


def split_figure(found: BackendComparison, colours: Palette, height: int) -> go.Figure:
    """A bar a backend, cut into what moving its bytes takes, what asking torch takes at the least, and the rest."""
    figure = go.Figure()
    splits = [split_of(found, run) for run in found.runs]
    parts = (
        (MOVING, [sum(s.moving_ms for s in split) for split in splits], colours.series[2]),
        (ASKING, [sum(s.asking_ms for s in split) for split in splits], colours.series[0]),
        (REST, [sum(s.rest_ms for s in split) for split in splits], colours.series[5]),
    )
    longest = max(run.step.step_ms for run in found.runs)
    for name, values, colour in parts:
        figure.add_bar(
            x=values, y=[run.backend for run in found.runs], orientation="h", name=name, marker_color=colour, width=0.6,
            text=[ms(v) if v > ROOMY * longest else "" for v in values], textposition="inside", textangle=0,
            insidetextanchor="middle", constraintext="none", customdata=[ms(v) for v in values],
            hovertemplate=f"%{{y}}: {name} %{{customdata}}<extra></extra>",
        )
    figure.update_xaxes(title="ms of a step, with a clock at every stage", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return plain(figure, colours, height, barmode="stack").update_layout(legend={"traceorder": "normal"})


def stages_figure(found: BackendComparison, order: Sequence[str], colours: Palette, height: int) -> go.Figure:
    """Bars of every stage that counts, one a backend, and a mark at what moving its bytes takes."""
    names, columns = _rows(found)
    labels = [_label(name, order) for name in names]
    shades = (colours.series[1], colours.series[3], colours.series[0])
    figure = go.Figure()
    for run, colour, column in zip(found.runs, shades, columns, strict=False):
        figure.add_bar(
            x=[s.ms for s in column], y=labels, orientation="h", name=run.backend, marker_color=colour,
            customdata=[[ms(s.ms), s.operations] for s in column],
            hovertemplate=f"{run.backend}, %{{y}}: %{{customdata[0]}}, %{{customdata[1]:,}} torch operations"
            "<extra></extra>",
        )  # fmt: skip
    moving = [found.moving_ms(min(s.num_bytes for s in row)) for row in zip(*columns, strict=True)]
    figure.add_scatter(
        x=moving, y=labels, mode="markers", name="moving its bytes (estimated)",
        marker={"symbol": "line-ns", "size": 14, "line": {"width": 3, "color": colours.text}, "color": colours.text},
        customdata=[ms(v) for v in moving], hovertemplate="moving the bytes of %{y}: %{customdata}<extra></extra>",
    )
    figure.update_xaxes(title="ms of a step, all layers together", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, dtick=1)
    plain(figure, colours, height, barmode="group")
    return figure.update_layout(bargap=0.25, bargroupgap=0.05)


def backends_table(found: BackendComparison, order: Sequence[str]) -> pd.DataFrame:
    """One row a kind of stage, all layers together, then the whole step. ms measured, the rest counted or estimated."""
    splits = [split_of(found, run) for run in found.runs]
    rows = []
    for column in zip(*splits, strict=True):
        first = column[0]
        row: dict[str, object] = {"part": first.group if first.stage else GAP, "stage": _label(first.stage, order)}
        rows.append(row | _figures(found, column))
    total = [_sum(split, "step") for split in splits]
    return pd.DataFrame([*rows, {"part": "step", "stage": "step"} | _figures(found, total)])


def backends_headline(found: BackendComparison) -> str:
    """Each step, and how they stand to each other."""
    first, *others = found.runs
    told = listed(f"{ms(run.step.plain.median_ms)} in {run.backend}" for run in found.runs)
    said = f"A decode step with {first.step.context_len:,} in the cache takes {told}"
    if len(others) == 1:
        said += f": by round, {first.backend} takes {times(others[0].ratio)} as long"
    elif others:
        ratios = listed(f"{times(run.ratio)} as long as {run.backend}" for run in others)
        said += f": by round, {first.backend} takes {ratios}"
    return said


def backends_words(found: BackendComparison) -> str:
    """What the three pieces of a bar are, with their numbers."""
    moved = {run.backend: sum(cost.num_bytes for cost in run.step.costs) for run in found.runs}
    if len(set(moved.values())) == 1:
        moved = {"a step": next(iter(moved.values()))}
    moving = listed(f"{name} {megabytes(b)} in {ms(found.moving_ms(b))}" for name, b in moved.items())
    asked = listed(f"{run.backend} {run.num_operations:,}" for run in found.runs)
    return (
        f"{MOVING.capitalize()}: {moving}, at the {found.bytes_per_second / 1e9:.1f} GB/s of reading in the same "
        "rounds. "
        f"{ASKING.capitalize()}: operations that Python asks torch for in one step ({asked}), each at the "
        f"{found.smallest.median_ms * 1000:.2f} µs of the smallest one here: the least that asking can cost. "
        f"{REST.capitalize()}: arithmetic, new memory, threads that wait, what larger operations prepare."
    )


def agreement_words(run: BackendRun, first: BackendRun) -> str:
    """Whether a backend says the same as the reference."""
    steps = run.step.plain.rounds + run.step.plain.warm_up
    same = f"all {steps}" if run.num_same >= steps else f"the first {run.num_same} of {steps}"
    return (
        f"In {run.backend} and {first.backend} the same token was taken in {same} steps; up to there logits differ by "
        f"at most {run.max_difference:.1g}."
    )


def taken_words(found: BackendComparison) -> str:
    return f"Step: {rounds(found.runs[0].step.plain)}, all in turn, in a new order each round."


def _figures(found: BackendComparison, column: Sequence[StageSplit]) -> dict[str, object]:
    row: dict[str, object] = {f"{run.backend} ms": s.ms for run, s in zip(found.runs, column, strict=True)}
    for run, other in zip(found.runs[1:], column[1:], strict=True):
        name = "ratio" if len(column) == 2 else f"{found.runs[0].backend} : {run.backend}"
        row[name] = column[0].ms / other.ms if other.ms > 0 else None
    row["bytes"] = column[0].num_bytes
    if _differs(found):
        row[f"{found.runs[-1].backend} bytes"] = column[-1].num_bytes
    row["moving ms"] = found.moving_ms(min(s.num_bytes for s in column))
    return row | {f"{run.backend} operations": s.operations for run, s in zip(found.runs, column, strict=True)}


def _differs(found: BackendComparison) -> bool:
    """True if the backends read the same matrix in different forms (packed: the unembed matrix)."""
    return len({sum(cost.num_bytes for cost in run.step.costs) for run in found.runs}) > 1


def _rows(found: BackendComparison) -> tuple[list[str], list[list[StageSplit]]]:
    """Stages to draw, in order, and of each backend their splits: small ones are summed in the last row."""
    splits = [split_of(found, run) for run in found.runs]
    least = SHOWN * max(sum(s.ms for s in split) for split in splits)
    large = [i for i in range(len(splits[0])) if any(split[i].ms >= least for split in splits)]
    names = [splits[0][i].stage for i in large]
    columns = [[split[i] for i in large] for split in splits]
    small = [i for i in range(len(splits[0])) if i not in large]
    if small:
        names.append(OTHERS)
        for split, column in zip(splits, columns, strict=True):
            column.append(_sum([split[i] for i in small], OTHERS))
    return names, columns


def _sum(splits: Sequence[StageSplit], name: str) -> StageSplit:
    return StageSplit(
        name, "", sum(s.ms for s in splits), sum(s.num_bytes for s in splits), sum(s.operations for s in splits),
        sum(s.moving_ms for s in splits), sum(s.asking_ms for s in splits),
    )


def _label(stage: str, order: Sequence[str]) -> str:
    return stage_name(stage, order) if stage else GAP
