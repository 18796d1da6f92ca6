"""The sampler as plotly figures. Each has a table twin in sampling/tables.py with the same numbers.

text: a token's visible text; it is escaped here, for plotly takes tags in labels for markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from miniinfer.figures.palette import Palette
from miniinfer.figures.plain import plain
from miniinfer.figures.sampling.words import TokenText, for_plotly, percent, rest_of
from miniinfer.trace.sampling.draws import Draws, Sweep
from miniinfer.trace.sampling.sampling import Sampling

ROW = 20  # px of a bar
SEGMENTS = 40  # most tokens on the cumulative bar; the others are its last part
LABEL_WIDTH = 0.03  # of the bar, from which on a part is wide enough to be named


def stage_tokens(sampling: Sampling, stage: int, count: int) -> list[int]:
    """The best `count` of what reached this stage, and the drawn token."""
    before = sampling.stages[max(stage - 1, 0)].logits
    count = min(count, len(before))
    found = np.argpartition(-before, count - 1)[:count]
    best = sorted(found.tolist(), key=lambda i: (-float(before[i]), i))
    return best if sampling.token_id in best else [*best[:-1], sampling.token_id]


def stage_figure(sampling: Sampling, stage: int, count: int, text: TokenText, colours: Palette) -> go.Figure:
    """One stage's distribution over the one before it; what is cut here is struck out, the tail is one bar."""
    after, before = sampling.stages[stage], sampling.stages[max(stage - 1, 0)]
    ids = stage_tokens(sampling, stage, count)
    old, new = [float(before.probs[i]) for i in ids], [float(after.probs[i]) for i in ids]
    labels = [_token_label(sampling, stage, i, text) for i in ids]
    tail = sampling.vocab_size - len(ids)
    if tail:
        labels.append(f"the other {tail:,} tokens")
        old.append(rest_of(before.probs, ids))
        new.append(rest_of(after.probs, ids))
    y = list(range(len(labels)))
    colour = [colours.step if i == sampling.token_id else colours.probability for i in ids] + [colours.quiet]
    figure = go.Figure()
    if stage and not after.off:
        figure.add_bar(
            x=old, y=y, orientation="h", width=0.86, name="before",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": colours.quiet, "width": 1}},
            hovertemplate="%{customdata} before<extra></extra>", customdata=[percent(p) for p in old],
        )
    figure.add_bar(
        x=new, y=y, orientation="h", width=0.6, name="after", marker_color=colour[: len(y)],
        hovertemplate="%{customdata} after<extra></extra>", customdata=[percent(p) for p in new],
    )
    figure.add_scatter(
        x=[max(a, b) for a, b in zip(old, new, strict=True)], y=y, mode="text", textposition="middle right",
        text=[f" {percent(p)}" if p else " cut" for p in new], textfont={"color": colours.quiet, "size": 12},
        hoverinfo="skip", cliponaxis=False,
    )
    figure.update_yaxes(tickvals=y, ticktext=labels, autorange="reversed", showgrid=False)
    most = max(*old, *new)
    figure.update_xaxes(tickformat=".0%", range=[0, most * 1.14], nticks=6)
    return plain(figure, colours, ROW * len(y) + 46, barmode="overlay", showlegend=False)


def _token_label(sampling: Sampling, stage: int, token_id: int, text: TokenText) -> str:
    label = for_plotly(text(token_id))
    if sampling.stages[stage].probs[token_id] == 0:
        label = f"<s>{label}</s>"
    return f"<b>{label}</b>" if token_id == sampling.token_id else label


def cumulative_figure(
    sampling: Sampling, coins: Sequence[tuple[float, int]], text: TokenText, colours: Palette
) -> go.Figure:
    """All that can be drawn, side by side; each coin lands on its token. coins: (coin, token), the newest last."""
    figure = go.Figure()
    newest = coins[-1][1] if coins else None
    for place, (token_id, name, lo, width) in enumerate(_parts(sampling, newest, text)):
        is_rest, hit = token_id is None, token_id is not None and token_id == newest
        figure.add_bar(
            x=[width], y=[0], base=[lo], orientation="h", width=0.7, showlegend=False,
            marker={
                "color": colours.cut if is_rest else colours.shades[place % 2],
                "line": {"color": colours.step if hit else "rgba(0,0,0,0)", "width": 3 if hit else 0},
            },
            text=for_plotly(name) if width >= LABEL_WIDTH else "", textposition="inside", insidetextanchor="middle",
            textangle=0, textfont={"color": colours.text if is_rest else colours.on_shades, "size": 13},
            hovertemplate=f"{for_plotly(name)}<br>{percent(width)}: {lo:.4f} to {lo + width:.4f}<extra></extra>",
        )
    for number, (coin, token_id) in enumerate(coins):
        last = number == len(coins) - 1
        figure.add_shape(
            type="line", x0=coin, x1=coin, y0=-0.42, y1=0.62 if last else 0.42,
            line={"color": colours.step if last else colours.text, "width": 3 if last else 1.5},
        )
        if last:
            figure.add_annotation(
                x=coin, y=0.62, yanchor="bottom", showarrow=False, font={"color": colours.step, "size": 13},
                xanchor="left" if coin < 0.15 else "right" if coin > 0.85 else "center",
                text=f"coin {coin:.4f} lands on <b>{for_plotly(text(token_id))}</b>",
            )
    figure.update_yaxes(visible=False, range=[-0.5, 0.95], fixedrange=True)
    title = _axis("used probability, end to end", colours)
    figure.update_xaxes(range=[0, 1], nticks=11, tickformat=".1f", title=title)
    return plain(figure, colours, 140, barmode="overlay", uniformtext={"minsize": 11, "mode": "hide"})


def _parts(
    sampling: Sampling, newest: int | None, text: TokenText
) -> Iterator[tuple[int | None, str, float, float]]:
    """(token id, name, from, width) along the bar: the best ones, the others as one (None), and upon them the newest
    coin's token, if it is one of those."""
    probs, order = sampling.used.probs, sampling.order
    lo = 0.0
    best = [int(i) for i in order[:SEGMENTS] if probs[i] > 0]
    for token_id in best:
        yield token_id, text(token_id), lo, float(probs[token_id])
        lo += float(probs[token_id])
    if (others := sampling.used.num_kept - len(best)) > 0:
        yield None, f"the other {others:,}", lo, max(0.0, 1 - lo)
        if newest is not None and newest not in best:
            start = float(probs[order[: sampling.places[newest]]].sum(dtype=np.float64))
            yield newest, text(newest), start, float(probs[newest])


def draws_figure(draws: Draws, token_ids: Sequence[int], text: TokenText, colours: Palette) -> go.Figure:
    """How often each token was drawn, over what was expected, with two of the spreads that chance explains; the other
    tokens that stay are one bar."""
    expected = [draws.expected(i) for i in token_ids]
    counts = [int(draws.counts[i]) for i in token_ids]
    spreads = [draws.spread(i) for i in token_ids]
    labels = [for_plotly(text(i)) for i in token_ids]
    colour = [colours.probability] * len(labels)
    others = draws.others(token_ids)
    if others.kept:
        labels.append(f"the other {others.kept:,} that stay")
        counts.append(others.drawn)
        expected.append(others.expected)
        spreads.append(others.spread)
        colour.append(colours.cut)
    y = list(range(len(labels)))
    figure = go.Figure()
    figure.add_bar(
        x=counts, y=y, orientation="h", width=0.62, name=f"drawn, of {draws.total:,}", marker_color=colour,
        hovertemplate="drawn %{x}<extra></extra>",
    )
    figure.add_scatter(
        x=expected, y=y, mode="markers", name="expected, ± 2 spreads of chance",
        marker={"symbol": "line-ns", "size": 13, "line": {"width": 2, "color": colours.text}},
        error_x={"type": "data", "array": [2 * spread for spread in spreads], "color": colours.text, "width": 4},
        hovertemplate="expected %{x:.1f}<extra></extra>",
    )
    figure.update_yaxes(tickvals=y, ticktext=labels, autorange="reversed", showgrid=False)
    figure.update_xaxes(rangemode="tozero", title=_axis("draws", colours))
    return plain(figure, colours, ROW * len(y) + 84)


def _axis(title: str, colours: Palette) -> dict[str, Any]:
    return {"text": title, "font": {"size": 12, "color": colours.quiet}, "standoff": 4}


def orders_figure(
    first: Sampling, second: Sampling, names: tuple[str, str], count: int, text: TokenText, colours: Palette,
    taken: tuple[int, int] | None = None,
) -> go.Figure:
    """The used probabilities of two records back to back: the best of either, a third of them cut in one, if any are.
    The tail is one bar.

    taken: the tokens that stand out, for example because a run was forced to take them; else those that were drawn.
    """
    a, b = first.used.probs, second.used.probs
    marked = taken or (first.token_id, second.token_id)
    either = {*first.order[:count].tolist(), *second.order[:count].tolist(), *marked}
    ranked = sorted(either, key=lambda i: (-max(float(a[i]), float(b[i])), i))
    both = [i for i in ranked if a[i] > 0 and b[i] > 0]
    alone = np.flatnonzero((a > 0) != (b > 0))
    alone = alone[np.argsort(-np.maximum(a, b)[alone], kind="stable")][: max(count // 3, count - len(both))]
    ids = [*both[: count - len(alone)], *alone.tolist(), *marked]
    ids = sorted(dict.fromkeys(ids), key=lambda i: (-max(float(a[i]), float(b[i])), i))
    tail = first.vocab_size - len(ids)
    labels = [for_plotly(text(i)) for i in ids] + [f"the other {tail:,} tokens"] * bool(tail)
    y = list(range(len(labels)))
    figure = go.Figure()
    most = 0.0
    for name, probs, sign, drawn in ((names[0], a, -1, marked[0]), (names[1], b, 1, marked[1])):
        values = [float(probs[i]) for i in ids] + [rest_of(probs, ids)] * bool(tail)
        most = max(most, *values)
        figure.add_bar(
            x=[sign * v for v in values], y=y, orientation="h", width=0.66, name=name, showlegend=False,
            marker_color=[*(colours.step if i == drawn else colours.probability for i in ids), colours.quiet][: len(y)],
            text=[percent(v) if v else "cut" for v in values], textposition="outside", cliponaxis=False,
            textfont={"color": colours.quiet, "size": 11},
            hovertemplate="%{customdata}<extra></extra>", customdata=[percent(v) for v in values],
        )
    most *= 1.25
    figure.update_xaxes(range=[-most, most], showticklabels=False)
    figure.update_yaxes(tickvals=y, ticktext=labels, autorange="reversed", showgrid=False)
    for x, name, anchor in ((-most, f"◂ {names[0]}", "left"), (most, f"{names[1]} ▸", "right")):
        figure.add_annotation(
            x=x, y=1, yref="paper", yanchor="bottom", xanchor=anchor, text=name, showarrow=False,
            font={"size": 13, "color": colours.text},
        )
    return plain(figure, colours, ROW * len(y) + 60, barmode="overlay")


def sweep_leaders(sweep: Sweep, count: int) -> list[int]:
    """The tokens that are likeliest at some temperature, best first."""
    peak = sweep.probs[np.array(sweep.temperatures) > 0].max(0) if max(sweep.temperatures) > 0 else sweep.probs[0]
    best = np.argpartition(-peak, min(count, len(peak)) - 1)[:count]
    return sorted(best.tolist(), key=lambda i: (-float(peak[i]), i))


def sweep_figure(sweep: Sweep, token_ids: Sequence[int], at: float, text: TokenText, colours: Palette) -> go.Figure:
    """A line for each leader over the temperature; at: the temperature that is set."""
    figure = go.Figure()
    for i, colour in zip(token_ids, colours.series, strict=False):
        figure.add_scatter(
            x=sweep.temperatures, y=sweep.probs[:, i], mode="lines", name=for_plotly(text(i)),
            line={"color": colour, "width": 2.5}, hovertemplate="%{y:.1%}",
        )
    figure.add_vline(x=at, line={"color": colours.text, "width": 1.5, "dash": "dot"})
    last = max(*sweep.temperatures, at)
    figure.update_xaxes(title=_axis("temperature (0 = greedy)", colours), range=[-0.02, last + 0.02])
    figure.update_yaxes(tickformat=".0%", range=[0, 1.03], title=_axis("used probability", colours))
    figure.update_layout(hovermode="x unified")
    return plain(figure, colours, 270)
