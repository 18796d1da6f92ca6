"""Predict, then reveal, about time: which bar is longer, and by how much. The answers come from the run's own steps."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import streamlit as st

from miniinfer.figures.cost_comparisons import bars_figure
from miniinfer.figures.cost_words import ms, times
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.cost_look import CostLook
from miniinfer.ui.cost_time import run_steps_table
from miniinfer.ui.page import card, run_action
from miniinfer.ui.run_look import PLOT

GUESSES = "cost_guesses"
OUTPUT = 9  # tokens that the reveal steps to, if the run has fewer: the first and eight decode steps
SECONDS = 20.0
HEIGHT = 150


@dataclass(frozen=True)
class Guess:
    longer: str  # "prefill" or "decode"
    factor: float  # one decoded token : one prompt token


@dataclass(frozen=True)
class Answer:
    """Milliseconds of the run's own steps."""

    prefill_ms: float
    prompt_tokens: int
    decode_ms: float
    decode_tokens: int

    @property
    def longer(self) -> str:
        return "prefill" if self.prefill_ms > self.decode_ms else "decode"

    @property
    def factor(self) -> float:
        return (self.decode_ms / self.decode_tokens) / (self.prefill_ms / self.prompt_tokens)


def draw_predict(look: CostLook) -> None:
    run = look.run
    guesses: dict[str, Guess] = st.session_state.setdefault(GUESSES, {})
    guess = guesses.get(run.info.run_id)
    made = sum(m.token_id is not None for m in run.steps)
    decoded = max(made, OUTPUT) - 1
    if guess is None:
        _ask(look, guesses, decoded)
        return
    answer = answer_of(run)
    if answer is None:
        st.text("This run ended before its first decode step, so there is nothing to compare. Start a longer one.")
    else:
        _reveal(look, guess, answer)
    if st.button("Guess again", key="cost_guess_again"):
        del guesses[run.info.run_id]
        st.rerun()


def answer_of(run: LiveRun) -> Answer | None:
    """None before the first decode step."""
    first = next((i for i, m in enumerate(run.steps) if m.token_id is not None), None)
    if first is None or first + 1 >= len(run.steps):
        return None
    before, later = run.steps[: first + 1], run.steps[first + 1 :]
    return Answer(
        sum(m.step_ms for m in before), run.info.num_prompt_tokens, sum(m.step_ms for m in later), len(later)
    )


def _ask(look: CostLook, guesses: dict[str, Guess], decoded: int) -> None:
    prompt = look.run.info.num_prompt_tokens
    st.markdown(f"**Which bar is longer: the prefill of {prompt:,} tokens, or the {decoded} decode steps after it?**")
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
                guesses[look.run.info.run_id] = Guess(str(longer), float(factor))

            run_action("cost", reveal)
    with right, card("The answer will stand here"):
        st.text(
            "Both bars as this run's own steps took them, once all together and once for a single token of each. The "
            "reveal steps the run on, if it has fewer tokens."
        )


def _step_on(look: CostLook, decoded: int) -> None:
    run, session = look.run, look.session
    first = next((i for i, m in enumerate(run.steps) if m.token_id is not None), 0)
    want = first + 1 + decoded
    if len(run.steps) < want:
        session.step_to(want, seconds=SECONDS)


def _reveal(look: CostLook, guess: Guess, answer: Answer) -> None:
    right = guess.longer == answer.longer
    off = max(guess.factor, answer.factor) / min(guess.factor, answer.factor)
    near = f"{times(off)} off" if off >= 1.05 else "right to within 5 %"
    st.markdown(
        f"**{'Yes' if right else 'No'}: the {answer.longer} bar is longer, and one decoded token takes "
        f"{times(answer.factor)} as long as one prompt token**"
    )
    st.text(f"You said {guess.longer}, and {guess.factor:g} times: {near}.")
    prompt, decoded = f"prefill, {answer.prompt_tokens:,} tokens", f"decode, {answer.decode_tokens:,} tokens"
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
            "a decoded token": answer.decode_ms / answer.decode_tokens,
        }
        st.plotly_chart(
            bars_figure(each, shades, look.colours, HEIGHT), key="cost_predict_each", config=PLOT,
            alt="Milliseconds of one prompt token and of one decoded token",
        )
    decodes = [m.step_ms for m in look.run.steps[-answer.decode_tokens :]]
    st.caption(
        f"Measured, this run as it was stepped; median of its decode steps {ms(statistics.median(decodes))}. A prefill "
        "reads the weights once for all its tokens, a decode step reads them for one."
    )
    run_steps_table(look)
    assert math.isfinite(answer.factor)
