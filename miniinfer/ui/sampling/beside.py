"""Another run beside the one that is looked at: the same output token of both, step by step, in two columns."""

from __future__ import annotations

import math

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.figures.sampling.plots import orders_figure
from miniinfer.figures.sampling.settings_words import sampler_words
from miniinfer.figures.sampling.tables import orders_table
from miniinfer.figures.sampling.words import percent
from miniinfer.provenance import Provenance
from miniinfer.trace.compare import compare_runs, compare_tokens
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run
from miniinfer.trace.sampling.place import Place, place_of, step_of_output
from miniinfer.trace.sampling.sampling import sampling_of
from miniinfer.ui.compare_page import draw_second_run
from miniinfer.ui.room import TOKEN_BAR, more_rows
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.two_columns import draw_comparison_table, read_outputs, verdict

SHOWN = 12
ROWS = 200
MOST_STEPS = 64  # that the other run is taken on at once


def draw_beside(look: Look) -> None:
    """Comparing two branches, or the same prompt under two settings or seeds."""
    session, run = look.session, look.run
    others = {r.info.run_id: r for r in reversed(list(session.timeline)) if r is not run}
    if not others:
        draw_second_run(
            session, run, "sampling", "The same output token of both, step by step, with the distribution that each "
            "drew from. Other ways to a second run: change settings at the left and press “Run the prompt with these”; "
            "for a branch, press “Use these from here” or force a token under “Any token”.",
        )
        return
    left, right = st.columns([3, 2], gap="medium", vertical_alignment="bottom")
    run_id = left.selectbox(
        f"Hold beside {run.info.run_id}, the run you are in", list(others), key="sampling_beside",
        format_func=lambda i: f"{i} · {others[i].info.name}", index=_likely(run, others), persist_state="session",
    )
    along = right.toggle(
        f"Step {run_id} along", value=True, key="sampling_along", persist_state="session",
        help="It is stepped as far as the run you are in; nothing else of it changes.",
    )
    other = others[run_id]
    if not isinstance(other, LiveRun):
        st.text(f"{run_id} is a recording, which keeps 20 candidates a step only. The page Compare holds their texts.")
        return
    if other.engine.model is not run.engine.model:
        st.text(f"{run_id} was made with another model, so its tokens are others. The page Compare holds their texts.")
        return
    index = len(look.place.output_ids)
    if along:
        with st.spinner(f"Stepping {run_id} as far as {run.info.run_id} …"):
            error = _step_along(session, other, index)
        if error:
            st.text(error)
    theirs = session.look([run, other], lambda: _place(other, index))
    for column, each, place in zip(st.columns(2, gap="medium"), (run, other), (look.place, theirs), strict=True):
        with column, st.container(key=f"sampling_beside_{'A' if each is run else 'B'}", gap="small"):
            st.text(f"{each.info.run_id} · {sampler_words(each.info.params if place is None else place.params)}")
            st.text(_took(look, each, place, index))
    st.text(verdict(compare_tokens(run, other), (run.info.run_id, run_id)))
    if theirs is not None:
        _distributions(look, other, theirs, index)
    folded = st.expander("Table of all output tokens of both", key="sampling_beside_fold", on_change="rerun")
    if folded.open:  # it takes an unembed product for each token
        with folded:
            read_outputs(session, (run, other))
            comparison = session.look([run, other], lambda: compare_runs(run, other))
            draw_comparison_table(comparison, (run.info.run_id, run_id))


def _likely(run: Run, others: dict[str, Run]) -> int:
    """The run's trunk, or else the newest run with the same prompt."""
    ids = list(others)
    if run.info.parent in others:
        return ids.index(run.info.parent or "")
    prompt = run.tokens[: run.info.num_prompt_tokens]
    same = (n for n, r in enumerate(others.values()) if r.tokens[: r.info.num_prompt_tokens] == prompt)
    return next(same, 0)


def _step_along(session: Session, run: LiveRun, index: int) -> str | None:
    """Until the run has chosen output token `index`, or ends; what went wrong, if anything did."""
    try:
        for _ in range(MOST_STEPS):
            if step_of_output(run, index) is not None or not session.look([run], run.step):
                break
    except MiniInferError as error:
        return str(error)
    return None


def _place(run: LiveRun, index: int) -> Place | None:
    step = step_of_output(run, index)
    return None if step is None else place_of(run, step)


def _took(look: Look, run: LiveRun, place: Place | None, index: int) -> str:
    if place is None:
        state = f"ended ({run.finish_reason})" if run.finish_reason else "has not been stepped that far"
        return f"It {state}: there is no output token {index + 1}."
    given = "" if place.logprob is None else f", to which its settings assigned {percent(math.exp(place.logprob))}"
    verb = "was forced to take" if place.forced else "took"
    return f"Output token {index + 1}: after {look.before(place)} it {verb} {look.quoted(place.token_id)}{given}."


def _distributions(look: Look, other: LiveRun, theirs: Place, index: int) -> None:
    places, names = (look.place, theirs), (look.run.info.run_id, other.info.run_id)
    first, second = look.session.look(
        [look.run], lambda: [sampling_of(p.logits, p.params, p.prompt_ids, p.output_ids) for p in places]
    )
    same = (places[0].prompt_ids, places[0].output_ids) == (theirs.prompt_ids, theirs.output_ids)
    before = "The same text stands before it in both runs" if same else "Other texts stand before it in the two runs"
    st.markdown(f"**Which tokens could be output token {index + 1}? {before}**")
    st.plotly_chart(
        orders_figure(
            first, second, names, SHOWN + more_rows(TOKEN_BAR), look.text, look.colours,
            taken=(places[0].token_id, theirs.token_id)
        ),
        key="sampling_beside_figure", config=PLOT, alt="Used probabilities of two runs at the same output token",
    )
    st.caption(
        f"Used probabilities; blue: the token that the run took. The coin was {first.coin:.4f} in {names[0]} and "
        f"{second.coin:.4f} in {names[1]}."
    )
    with st.expander("Table of this figure: survivors, and why each fell in the other run"):
        frame = orders_table(first, second, names, look.text, ROWS)
        draw_table_twin(frame, "sampling_beside", Provenance.COMPUTED, "beside.csv", columns=probabilities(*names))
