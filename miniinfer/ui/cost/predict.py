"""Predict, then reveal, about time: which bar is longer, and by how much. The answers come from the run's own steps."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.figures.cost.comparisons import bars_figure
from miniinfer.figures.cost.words import ms, times
from miniinfer.figures.kv.words import count
from miniinfer.provenance import Provenance
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.cost.look import CostLook
from miniinfer.ui.cost.time import run_steps_table
from miniinfer.ui.page import card, run_action, to_first_token
from miniinfer.ui.run_look import PLOT

GUESSES = "cost_guesses"
OUTPUT = 9  # tokens that the reveal steps to, if the run has fewer: the first and eight decode steps
SECONDS = 20.0
HEIGHT = 150


@dataclass(frozen=True)
class Guess:
    longer: str  # "prefill" or "decode"
    factor: float  # one decoded token : one prompt token
    decoded: int  # how many decode steps were asked about; later ones do not change the answer


@dataclass(frozen=True)
class Answer:
    """Milliseconds of the run's own steps."""

    prefill_ms: float
    prompt_tokens: int
    decodes: tuple[float, ...]  # of each decode step that was asked about

    @property
    def decode_ms(self) -> float:
        return sum(self.decodes)

    @property
    def longer(self) -> str:
        return "prefill" if self.prefill_ms > self.decode_ms else "decode"

    @property
    def factor(self) -> float:
        return (self.decode_ms / len(self.decodes)) / (self.prefill_ms / self.prompt_tokens)


def draw_predict(look: CostLook) -> None:
    run = look.run
    guesses: dict[str, Guess] = st.session_state.setdefault(GUESSES, {})
    guess = guesses.get(run.info.run_id)
    if guess is None:
        made = sum(m.token_id is not None for m in run.steps)
        _ask(look, guesses, max(1, min(max(made, OUTPUT), run.info.params.max_new_tokens) - 1))
        return
    answer = answer_of(run, guess.decoded)
    if answer is None:
        st.text("This run ended before its first decode step, so there is nothing to compare. Start a longer one.")
    else:
        _reveal(look, guess, answer)
    if st.button("Guess again", key="cost_guess_again"):
        del guesses[run.info.run_id]
        st.rerun()


def answer_of(run: LiveRun, decoded: int) -> Answer | None:
    """From the prefill and at most the first `decoded` decode steps; None before the first of these."""
    first = next((i for i, m in enumerate(run.steps) if m.token_id is not None), None)
    if first is None or first + 1 >= len(run.steps):
        return None
    before, later = run.steps[: first + 1], run.steps[first + 1 : first + 1 + decoded]
    return Answer(sum(m.step_ms for m in before), run.info.num_prompt_tokens, tuple(m.step_ms for m in later))


def _ask(look: CostLook, guesses: dict[str, Guess], decoded: int) -> None:
    prompt = look.run.info.num_prompt_tokens
    asked = f"the prefill of {count(prompt, 'token')}, or the {count(decoded, 'decode step')} after it"
    st.markdown(f"**Which bar is longer: {asked}?**")
    left, right = st.columns([4, 7], gap="large")
    with left, st.form("cost_guess", border=False):
        longer = st.radio("The longer bar", ["prefill", "decode"], key="cost_longer", horizontal=True)
        factor = st.number_input(
            "How many times as long does one decoded token take as one prompt token?", key="cost_factor",
            min_value=0.01, max_value=10_000.0, value=1.0, step=0.5,
        )
        if st.form_submit_button("Reveal", type="primary"):
            def reveal() -> None:
                _step_on(look, decoded)
                guesses[look.run.info.run_id] = Guess(str(longer), float(factor), decoded)

            run_action("cost", reveal)
    with right, card("The answer will stand here"):
        st.text(
            "Both bars as this run's own steps took them, once all together and once for a single token of each. The "
            "reveal steps the run on, if it has fewer tokens."
        )


def _step_on(look: CostLook, decoded: int) -> None:
    """To the end of the steps that were asked about. Raises MiniInferError if that takes too long; what was stepped
    stays, so that asking again goes on from there."""
    run, session = look.run, look.session
    if answer_of(run, 1) is None:
        to_first_token(session)
    first = next((m.step for m in run.steps if m.token_id is not None), None)
    if first is not None and len(run.steps) < first + decoded:
        session.step_to(first + decoded, seconds=SECONDS)
    if run.finish_reason is None and (first is None or len(run.steps) < first + decoded):
        raise MiniInferError(f"The run did not get that far within {SECONDS:.0f} s: press Reveal again, it goes on.")


def _reveal(look: CostLook, guess: Guess, answer: Answer) -> None:
    right = guess.longer == answer.longer
    off = max(guess.factor, answer.factor) / min(guess.factor, answer.factor)
    near = f"{times(off)} off" if off >= 1.05 else "right to within 5 %"
    st.markdown(
        f"**{'Yes' if right else 'No'}: the {answer.longer} bar is longer, and one decoded token takes "
        f"{times(answer.factor)} as long as one prompt token**"
    )
    st.text(f"You said {guess.longer}, and {guess.factor:g} times: {near}.")
    prompt = f"prefill, {count(answer.prompt_tokens, 'token')}"
    decoded = f"decode, {count(len(answer.decodes), 'token')}"
    shades = (look.colours.series[0], look.colours.series[1])
    left, middle = st.columns(2, gap="medium")
    with left:
        st.markdown("**All of them together**")
        st.plotly_chart(
            bars_figure({prompt: answer.prefill_ms, decoded: answer.decode_ms}, shades, look.colours, HEIGHT),
            key="cost_predict_all", config=PLOT, alt="Milliseconds of the prefill and of all decode steps",
        )
    with middle:
        st.markdown("**One token of each**")
        each = {
            "a prompt token": answer.prefill_ms / answer.prompt_tokens,
            "a decoded token": answer.decode_ms / len(answer.decodes),
        }
        st.plotly_chart(
            bars_figure(each, shades, look.colours, HEIGHT), key="cost_predict_each", config=PLOT,
            alt="Milliseconds of one prompt token and of one decoded token",
        )
    source = Provenance.RECORDED if look.run.info.resumed else Provenance.MEASURED
    st.caption(
        f"{source.value.capitalize()}, this run as it was stepped; median of these decode steps "
        f"{ms(statistics.median(answer.decodes))}. A prefill reads the weights once for all its tokens, a decode step "
        "reads them for one."
    )
    run_steps_table(look, source)
