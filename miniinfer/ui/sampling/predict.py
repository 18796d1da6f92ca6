"""Predict, then reveal: guesses are written down first, then the step is run and says what they were worth."""

from __future__ import annotations

import statistics

import streamlit as st

from miniinfer.figures.sampling.plots import stage_figure
from miniinfer.figures.sampling.tables import scores_table
from miniinfer.figures.sampling.words import percent
from miniinfer.provenance import Provenance
from miniinfer.trace.sampling.place import place_of
from miniinfer.trace.sampling.prediction import Guess, Score, score
from miniinfer.trace.sampling.sampling import sampling_of
from miniinfer.ui.page import card, run_action
from miniinfer.ui.room import TOKEN_BAR, more_rows
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.table_twin import draw_table_twin

MOST = 30  # guesses
SHOWN = 10
ROUNDS = "sampling_rounds"
SCORES = probabilities("assigned by the model", "by the settings") | {
    "surprise": st.column_config.NumberColumn(format="%.3f")
}


def draw_predict(look: Look) -> None:
    """Rounds are kept by run, so that going to another run does not mix them."""
    step = look.place.step + 1
    run = look.run
    over = run.finish_reason is not None and step > len(run.steps)
    st.markdown(f"**Which token will step {step} take, and which could it take?**")
    if over:
        st.caption(f"The run ended ({run.finish_reason}), so there is no step {step}. Go back a few steps, or branch.")
    with st.form("sampling_guess", border=False, clear_on_submit=True):
        typed = st.text_area(
            "Guesses, one a line", key="sampling_guesses", height=84, disabled=over,
            help="The first token of each line counts, with or without a space in front, whichever is likelier.",
        )
        if st.form_submit_button(f"Reveal step {step}", type="primary", disabled=over):
            _reveal(look, typed)
    rounds: dict[str, list[tuple[int, Score]]] = st.session_state.get(ROUNDS, {})
    mine = rounds.get(run.info.run_id, [])
    if not mine:
        with card("The answer will stand here"):
            st.text(
                "What the model assigned to each guess, whether it could be drawn, the distribution that the step drew "
                "from, and the score of all rounds."
            )
        return
    newest = [s for at, s in mine if at == look.place.step]
    if newest:
        st.text(f"Step {look.place.step} took {look.quoted(look.place.token_id)}. {_verdict(newest)}")
        own = look.sampling(look.place.params)
        figure = stage_figure(own, len(own.stages) - 1, SHOWN + more_rows(TOKEN_BAR), look.text, look.colours)
        st.plotly_chart(figure, key="sampling_revealed", config=PLOT, alt="The distribution that the step drew from")
    st.text(f"All rounds of this run: {_verdict([s for _, s in mine])}")
    draw_table_twin(scores_table(mine, look.text), "sampling_scores", Provenance.COMPUTED, "scores.csv", columns=SCORES)
    st.caption("surprise: −ln of what the model assigned, in nats; 0 would be certainty.")


def _reveal(look: Look, typed: str) -> None:
    """Step the run, then score with the settings that the step itself used."""
    session, run, step = look.session, look.run, look.place.step + 1
    guesses = [guess for line in typed.splitlines()[:MOST] if (guess := _guess(look, line)) is not None]

    def reveal() -> None:
        session.step_to(step, seconds=5)
        place = session.look([run], lambda: place_of(run, step))
        if place is not None:
            sampling = session.look(
                [run], lambda: sampling_of(place.logits, place.params, place.prompt_ids, place.output_ids)
            )
            rounds = st.session_state.setdefault(ROUNDS, {}).setdefault(run.info.run_id, [])
            rounds.extend((step, s) for s in score(guesses, sampling, place.token_id))

    run_action("sampling", reveal)


def _guess(look: Look, line: str) -> Guess | None:
    """The first token of the line as typed, and of the line with a space in front."""
    if not line.strip():
        return None
    encode = look.model.tokenizer.encode
    firsts = [encode(text, parse_special=False)[0] for text in (line, " " + line.lstrip())]
    return Guess(line, tuple(dict.fromkeys(firsts)))


def _verdict(scores: list[Score]) -> str:
    hits = sum(s.hit for s in scores)
    alive = sum(s.survived for s in scores)
    mean = statistics.fmean(s.raw_prob for s in scores)
    return (
        f"{hits} of {len(scores)} guesses were taken, {alive} could have been drawn; the model assigned "
        f"{percent(mean)} to a guess on average."
    )
