"""The tree of runs as a plotly figure: a lane for each run, a dot for each output token, an edge where a branch left.

The table twin is `sampling_tables.tree_table`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from miniinfer.figures.palette import Palette
from miniinfer.figures.sampling.tree_layout import Lanes, choosing, labels_of, lanes_of, short, ticks
from miniinfer.figures.sampling.words import OwnText, for_plotly, percent
from miniinfer.trace.tree import TreeNode

LANE = 34  # px between two runs
NAME = 22  # most characters of a run's name
MOST_DOTS = 1500  # beyond this every second, third, .. token has a dot
Line = tuple[list[float | None], list[float | None]]


def tree_figure(nodes: Sequence[TreeNode], current: str, cursor: int, text: OwnText, colours: Palette) -> go.Figure:
    """current: id of the run that is looked at; cursor: the step of it. A dot's customdata begins with [run id, step].

    nodes: as `tree_of` gives them, at least one.
    """
    lanes = lanes_of(nodes)
    figure = go.Figure()
    _shared(figure, lanes, colours)
    _lines(figure, lanes, current, colours)
    _edges(figure, lanes, colours)
    _dots(figure, lanes, text, colours)
    _first_differences(figure, lanes, colours)
    _cursor(figure, lanes, current, cursor, colours)
    _labels(figure, lanes, text, colours)
    return _finish(figure, lanes, current, colours)


def _shared(figure: go.Figure, lanes: Lanes, colours: Palette) -> None:
    """A band on a run where a branch reads the same blocks of its KV cache."""
    for first, node in enumerate(n for n in lanes.nodes if n.sharers):
        run = node.run
        stop = lanes.x_of(run, max(s.positions for s in node.sharers) - 1)
        start, lane = lanes.start[run.info.run_id], lanes.lane[run.info.run_id]
        if stop <= start:
            continue
        words = "<br>".join(
            f"{s.run_id} reads {s.positions:,} positions from the same blocks: {s.used_bytes:,} bytes used, "
            f"{s.allocated_bytes:,} allocated"
            for s in node.sharers
        )
        figure.add_scatter(
            x=[start, (start + stop) / 2, stop], y=[lane] * 3, mode="lines", name="shared KV cache", text=[words] * 3,
            hovertemplate="%{text}<extra></extra>", line={"color": colours.kv, "width": 11}, opacity=0.45,
            showlegend=first == 0, legendgroup="shared",
        )


def _lines(figure: go.Figure, lanes: Lanes, current: str, colours: Palette) -> None:
    for mine in (False, True):
        ids = [n.run.info.run_id for n in lanes.nodes if (n.run.info.run_id == current) == mine]
        x, y = _joined(
            ([lanes.start[i], max(lanes.start[i], float(lanes.nodes[lanes.lane[i]].num_outputs), 0.0)], [lanes.lane[i]])
            for i in ids
        )
        style = {"color": colours.text if mine else colours.quiet, "width": 3 if mine else 1.5}
        figure.add_scatter(x=x, y=y, mode="lines", hoverinfo="skip", showlegend=False, line=style)
    roots = [node for node in lanes.nodes if lanes.start[node.run.info.run_id] < 0]
    figure.add_scatter(
        x=[-lanes.prompt] * len(roots), y=[lanes.lane[n.run.info.run_id] - 0.12 for n in roots], mode="text",
        text=[f"prompt: {n.run.info.num_prompt_tokens:,}" for n in roots], textposition="top right",
        textfont={"size": 12, "color": colours.quiet}, hoverinfo="skip", showlegend=False, cliponaxis=False,
    )


def _edges(figure: go.Figure, lanes: Lanes, colours: Palette) -> None:
    """From the last token in common to the first of the branch's own: solid if forced, dotted for new settings."""
    for forced, name in ((True, "forced token"), (False, "new settings")):
        leaving = [n for n in lanes.nodes if n.depth and n.output is not None and n.forced == forced]
        if not leaving:
            continue
        lines = []
        for node in leaving:
            at, lane = float(node.output or 0), lanes.lane[node.run.info.run_id]
            lines.append(([at, at, at + 1], [lanes.lane_at(node.run.info.parent or "", at), lane, lane]))
        x, y = _joined(lines)
        figure.add_scatter(
            x=x, y=y, mode="lines", hoverinfo="skip", name=name,
            line={"color": colours.branch, "width": 2, "dash": "solid" if forced else "dot"},
        )


def _joined(lines: Iterable[tuple[list[float], list[int]]]) -> Line:
    """Several lines as one trace, a gap between each two; a single y holds for the whole line."""
    x: list[float | None] = []
    y: list[float | None] = []
    for xs, ys in lines:
        x += [*xs, None]
        y += [*(ys if len(ys) > 1 else ys * len(xs)), None]
    return x, y


def _dots(figure: go.Figure, lanes: Lanes, text: OwnText, colours: Palette) -> None:
    """All output tokens of a run's own part, those that were forced in violet."""
    steps = {node.run.info.run_id: choosing(node.run) for node in lanes.nodes}
    places = [
        (node, index)
        for node in lanes.nodes
        for index in range(node.output or 0 if node.depth else 0, len(steps[node.run.info.run_id]))
    ]
    every = max(1, -(-len(places) // MOST_DOTS))
    size = 9 if lanes.last <= 50 else 6 if lanes.last <= 120 else 4
    for forced in (False, True):
        x, y, data = [], [], []
        for number, (node, index) in enumerate(places):
            run = node.run
            meta = run.steps[steps[run.info.run_id][index] - 1]
            if meta.forced == forced and (forced or number % every == 0):
                x.append(index + 1)
                y.append(lanes.lane[run.info.run_id])
                given = "" if meta.logprob is None else f", the settings assigned {percent(math.exp(meta.logprob))}"
                token = for_plotly(text(run.tokens[run.info.num_prompt_tokens + index]))
                how = f"{run.info.run_id}, output token {index + 1}, {'forced' if forced else 'drawn'}{given}"
                data.append([run.info.run_id, meta.step, f"<b>{token}</b><br>{how}<br>click: look at this step"])
        figure.add_scatter(
            x=x, y=y, mode="markers", marker={"color": colours.branch if forced else colours.text, "size": size},
            customdata=data, hovertemplate="%{customdata[2]}<extra></extra>", showlegend=False,
            selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
        )


def _first_differences(figure: go.Figure, lanes: Lanes, colours: Palette) -> None:
    differ = [n for n in lanes.nodes if n.first_difference is not None]
    if differ:
        figure.add_scatter(
            x=[(n.first_difference or 0) + 1 for n in differ], y=[lanes.lane[n.run.info.run_id] for n in differ],
            mode="markers", name="first difference", hoverinfo="skip",
            marker={"symbol": "diamond-open", "size": 14, "color": colours.branch, "line": {"width": 2}},
        )


def _cursor(figure: go.Figure, lanes: Lanes, current: str, cursor: int, colours: Palette) -> None:
    """Where the user is; before a branch's own part, that is on its trunk."""
    if current not in lanes.lane:
        return
    run = lanes.nodes[lanes.lane[current]].run
    chosen = sum(meta.token_id is not None for meta in run.steps[:cursor])
    x = float(chosen) if cursor else -lanes.prompt
    figure.add_scatter(
        x=[x], y=[lanes.lane_at(current, x)], mode="markers", name="you are here", hoverinfo="skip",
        marker={"symbol": "circle-open", "size": 19, "color": colours.step, "line": {"width": 3}},
    )


def _labels(figure: go.Figure, lanes: Lanes, text: OwnText, colours: Palette) -> None:
    for branch, colour in ((True, colours.branch), (False, colours.quiet)):
        labels = [label for label in labels_of(lanes, text) if label.branch == branch]
        figure.add_scatter(
            x=[label.x for label in labels], y=[label.lane - 0.12 for label in labels], mode="text",
            text=[for_plotly(label.text) for label in labels], hoverinfo="skip", showlegend=False, cliponaxis=False,
            textposition=["top left" if label.to_the_left else "top right" for label in labels],
            textfont={"size": 12, "color": colour},
        )


def _finish(figure: go.Figure, lanes: Lanes, current: str, colours: Palette) -> go.Figure:
    names = []
    for node in lanes.nodes:
        name = for_plotly(f"{node.run.info.run_id}  {short(node.run.info.name, NAME)}")
        names.append(f"<b>{name}</b>" if node.run.info.run_id == current else name)
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.9], showgrid=False
    )
    figure.update_xaxes(
        title={"text": "output token", "font": {"size": 12}, "standoff": 6}, gridcolor=colours.grid,
        range=[-lanes.prompt * 1.04, lanes.last + 1], tickvals=ticks(lanes.last),
    )
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(zeroline=False, fixedrange=True, automargin=True, ticks="", tickfont={"size": 12})
    return figure.update_layout(
        height=LANE * len(names) + 92, margin={"l": 8, "r": 8, "t": 26, "b": 8}, dragmode=False, hovermode="closest",
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={
            "align": "left", "bgcolor": colours.grid, "bordercolor": colours.quiet, "font": {"color": colours.text},
        },
        font={"size": 12, "color": colours.text, "family": '"Source Sans", sans-serif'},
        legend={
            "orientation": "h", "xref": "container", "x": 0.01, "yref": "container", "y": 1, "yanchor": "top",
            "itemclick": False, "itemdoubleclick": False, "title": None,
        },
    )  # fmt: skip
