"""The one two-column view: two runs side by side, where they first differ, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from miniinfer.figures.compare_plot import comparison_figure
from miniinfer.figures.palette import palette
from miniinfer.figures.quoting import quoted
from miniinfer.figures.sampling.settings_words import sampler_words
from miniinfer.figures.tables import comparison_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.trace.compare import RunComparison, compare_runs
from miniinfer.trace.run import Run
from miniinfer.ui.room import roomy
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin

HEIGHT, TABLE = 230, 250  # px
AT_ONCE = 8  # steps that are read in one turn of the engine thread
RUN_COLUMNS = ("token", "used probability")
MANY = 8  # rows, from which on the table scrolls in a place of its own
PROBABILITY = FINE = st.column_config.NumberColumn(format="%.4g")
COLUMNS = {
    "used probability A": PROBABILITY, "used probability B": PROBABILITY, "margin": FINE, "difference": FINE,
}  # fmt: skip


def draw_comparison(session: Session, a: Run, b: Run) -> None:
    """Both runs as far as they have been stepped."""
    read_outputs(session, (a, b))
    comparison, outputs = session.look([a, b], lambda: (compare_runs(a, b), [_text(run) for run in (a, b)]))
    columns = st.columns(2)
    for column, letter, run, output in zip(columns, "AB", (a, b), outputs, strict=True):
        with column, st.container(key=f"compare_{letter}"):
            kind = " · recorded" if run.info.kind == "recorded" else ""
            st.text(f"{letter} · {settings_line(run)}{kind}")  # not a caption: a model file's name is not ours
            st.text(output)
    st.text(verdict(comparison, ("A", "B")))
    kinds = [Provenance.RECORDED if run.info.kind == "recorded" else Provenance.COMPUTED for run in (a, b)]
    if comparison.pairs:
        st.plotly_chart(
            comparison_figure(
                comparison, palette(dark=st.context.theme.type == "dark"), roomy(HEIGHT, 2),
                " and ".join(sorted(set(kinds))),
            ),
            key="compare_figure", config=PLOT,
            alt="What each run's token had, and how far apart the distributions were",
        )
    source = _source(kinds)
    height = roomy(TABLE, 2) if len(comparison.pairs) > MANY else None
    draw_comparison_table(comparison, ("A", "B"), source, height)


def _source(kinds: Sequence[Provenance]) -> Provenance | Mapping[Provenance, str]:
    """kinds: where the probabilities of A and of B come from."""
    if Provenance.RECORDED not in kinds:
        return Provenance.COMPUTED
    whose = " and ".join(letter for letter, kind in zip("AB", kinds, strict=True) if kind is Provenance.RECORDED)
    rest = "margin and difference" if Provenance.COMPUTED not in kinds else "the others, margin and difference"
    return {Provenance.RECORDED: f"probabilities of {whose}", Provenance.COMPUTED: rest}


def read_outputs(session: Session, runs: Sequence[Run]) -> None:
    """Have what each output token was chosen from worked out, a few steps at a time, so that other tabs come in
    between: each is one unembed product and one pass of the sampler, and a run keeps what it has found."""

    def read(run: Run, steps: Sequence[int]) -> None:
        for step in steps:
            run.next_token(step)

    for run in runs:
        steps = [meta.step for meta in run.steps if meta.token_id is not None]
        for at in range(0, len(steps), AT_ONCE):
            session.look([run], partial(read, run, steps[at : at + AT_ONCE]))


def draw_comparison_table(
    comparison: RunComparison, names: tuple[str, str],
    source: Provenance | Mapping[Provenance, str] = Provenance.COMPUTED, height: int | None = None,
) -> None:
    """One row an output token, and what its columns mean. names: of the two runs, in the heads of the columns."""
    if not comparison.pairs:
        st.caption("Neither run has an output token yet: a row for each will stand here. Step on with the arrow key →.")
        return
    frame = comparison_table(comparison)
    for column in ("token A", "token B"):
        frame[column] = frame[column].map(visible)  # blanks and line ends are tokens too
    letters = dict(zip("AB", names, strict=True))
    heads = {f"{what} {letter}": f"{what} {name}" for what in RUN_COLUMNS for letter, name in letters.items()}
    columns = {heads.get(column, column): form for column, form in COLUMNS.items()}
    draw_table_twin(
        frame.rename(columns=heads), "compare", source, "comparison.csv", columns=columns, height=height
    )
    st.caption(
        "margin: ln(p1 / p2) of the two best raw probabilities, the smaller of the two runs; below 0.01 another order "
        "of summation may choose otherwise. difference: half the summed difference of the used probabilities shown."
    )


def _text(run: Run) -> str:
    return show_blanks("".join(t.text for t in run.tokens))


def show_blanks(text: str) -> str:
    """Signs for line ends, tabs, and the blanks at both ends, which st.text would strip."""
    for blank, sign in (("\r", "␍"), ("\n", "↵\n"), ("\t", "⇥")):
        text = text.replace(blank, sign)
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    return "␣" * before + inner + "␣" * (len(text) - before - len(inner))


def settings_line(run: Run) -> str:
    """What the run was made with."""
    return f"{run.info.model_name}, {run.info.dtype}, {sampler_line(run)}"


def sampler_line(run: Run) -> str:
    """The settings of the run's sampler."""
    return sampler_words(run.info.params)


def verdict(comparison: RunComparison, names: tuple[str, str]) -> str:
    """Where the two part, in a sentence."""
    if not comparison.same_prompt:
        return "The prompts differ, so the distributions are of different contexts."
    first = comparison.first_difference
    if first is None:
        return f"The first {comparison.common} output tokens are equal; there is no difference so far."
    pair = comparison.pairs[first]
    assert pair.a is not None
    assert pair.b is not None
    a, b = (f"{quoted(visible(token.text))} in {name}" for token, name in zip((pair.a, pair.b), names, strict=True))
    return f"First difference at output token {first + 1}: {a}, {b}."
