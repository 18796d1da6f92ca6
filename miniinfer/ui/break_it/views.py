"""What both sides did: four facts, then one of the views."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from miniinfer.faults.fault import Fault
from miniinfer.figures.break_it import words as break_words
from miniinfer.figures.break_it.plots import growth_figure, loss_figure, next_tokens_figure
from miniinfer.figures.break_it.tables import growth_table, loss_table, next_tokens_table, stages_table
from miniinfer.figures.palette import Palette, palette
from miniinfer.figures.tables import comparison_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.ui.break_it.run import TEXT, Answer
from miniinfer.ui.break_it.tokens import draw_tokens
from miniinfer.ui.figure import draw_figure
from miniinfer.ui.room import roomy
from miniinfer.ui.table_twin import draw_table_twin

STEPS = 3  # output tokens whose bars stand side by side
HEIGHT = 256


def draw_facts(answer: Answer) -> None:
    """First stage, first token, and both losses, each with what it means."""
    pair, fault = answer.pair, answer.question.fault
    stage, how = break_words.first_stage(pair)
    if fault is not None and pair.first is not None:
        found = (pair.first.difference.stage, pair.first.difference.name)
        how += ", as claimed" if found == fault.first else f", not {fault.first[0]} as claimed"
    facts = (
        ("First differing stage", stage, how),
        ("First differing token", *break_words.first_token(pair)),
        ("Loss of a fixed text, one pass", *break_words.loss(answer.one_pass)),
        ("The same, token by token", *break_words.loss(answer.token_by_token)),
    )
    with st.container(key="break_facts"):
        for column, (title, value, words) in zip(st.columns(4, gap="medium"), facts, strict=True):
            with column:
                st.caption(title)
                st.markdown(f"**{value}**")
                st.caption(words)


def draw_side_by_side(answer: Answer) -> None:
    pair, colours = answer.pair, _colours()
    draw_tokens(pair, colours, _second(answer))
    left, right = st.columns([5, 3], gap="medium")
    with left:
        st.markdown("**What could each side take next?**")
        first = pair.comparison.first_difference or 0
        start = min(max(0, first - 1), max(0, len(pair.bars) - STEPS))
        shown = pair.bars[start : start + STEPS]
        draw_figure(
            next_tokens_figure(shown, visible, colours, roomy(HEIGHT), _second(answer)), "break_bars",
            f"{_name(answer)}: next-token probabilities of both sides, after the logits processors",
        )
    with right:
        st.markdown("**How far apart are they after each layer?**")
        if any(pair.growth):
            draw_figure(
                growth_figure(pair.growth, colours, roomy(HEIGHT)), "break_growth",
                f"{_name(answer)}: relative difference of the residual stream by layer",
            )
        else:
            st.text(_no_growth(answer))
    st.caption(
        "Bars: after the logits processors, from the token before the first difference on; bold: taken. Line: newest "
        f"row of step {pair.first.step if pair.first else 1}{_no_point(pair.growth)}. Figures: computed; their twins "
        "are under Tables."
    )


def _no_point(growth: Sequence[float]) -> str:
    """What the line does not say: 0 has no place on a logarithmic scale."""
    return "; no point where both are equal, bit for bit" if 0 in growth and any(growth) else ""


def _second(answer: Answer) -> str:
    """What the second side is."""
    return "broken" if answer.question.fault else "healthy too"


def _name(answer: Answer) -> str:
    return answer.question.fault.name if answer.question.fault else "Both healthy"


def _no_growth(answer: Answer) -> str:
    if answer.pair.first is None:
        return "Nowhere: the residual streams are equal, bit for bit."
    return "Not at all: no layer differs in the step that differs first. The fault acts after the last layer."


def draw_loss(answer: Answer) -> None:
    """The same text twice: as a prompt in one pass, and as decode meets it."""
    colours, labels = _colours(), [token.text for token in answer.text[1:]]
    for title, pair, key in (
        ("In one pass, as a prefill computes it", answer.one_pass, "break_loss_pass"),
        ("Token by token, as decode computes it", answer.token_by_token, "break_loss_decode"),
    ):
        st.markdown(f"**{title}**")
        figure = loss_figure(labels, pair, visible, colours, 174, _second(answer))
        draw_figure(figure, key, f"{_name(answer)}: loss. {title}")
    st.caption(
        f"The text, in the fault's situation: “{TEXT}” −ln p of each token after those before it, in nats. A mean that "
        "stays, or even falls, proves nothing. Figures: computed; their twin is under Tables."
    )


def draw_tables(answer: Answer) -> None:
    """The twins of what stands in the other views, each with its CSV."""
    pair = answer.pair
    tables = {
        "Tokens": (comparison_table(pair.comparison), "tokens.csv", f"A is healthy, B is {_second(answer)}."),
        "Next-token bars": (next_tokens_table(pair.bars), "next_tokens.csv", "After the logits processors."),
        "Stages": (stages_table(pair.stages), "stages.csv", "Every tensor of the first step that differs."),
        "Layers": (growth_table(pair.growth), "layers.csv", "|difference| / |healthy| of the newest row after each."),
        "Loss": (
            loss_table(answer.text, answer.one_pass, answer.token_by_token), "loss.csv", "−ln p in nats, by token.",
        ),
    }  # fmt: skip
    chosen = st.segmented_control(
        "Table", list(tables), default="Tokens", key="break_table", required=True, label_visibility="collapsed",
        persist_state="session",
    )
    frame, file_name, words = tables[chosen or "Tokens"]
    st.caption(words)
    draw_table_twin(_readable(frame), "break", Provenance.COMPUTED, file_name, csv=lambda: frame)


def _readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Blanks and line ends are tokens too: signs stand for them. What is saved has the texts themselves."""
    texts = [name for name in frame.columns if name in ("token", "token A", "token B")]
    return frame.assign(**{name: frame[name].map(visible) for name in texts})


def draw_code(fault: Fault) -> None:
    """The functions that take a stage's place, read from the file that runs, and what guards this project."""
    edits: list[Callable[..., Any]] = list(dict.fromkeys(fault.replaced.values()))
    if fault.prompt_edit is not None:
        edits.append(fault.prompt_edit)
    for edit in edits:
        st.code(inspect.getsource(edit), language="python", wrap_lines=True)
    st.caption(f"The test of this project that fails if somebody makes this mistake in earnest: `{fault.guard}`")


def _colours() -> Palette:
    return palette(dark=st.context.theme.type == "dark")
