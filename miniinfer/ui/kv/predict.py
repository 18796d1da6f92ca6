"""Predict, then reveal: a guess about the cache is written down first; then the run is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.kv.pool_plots import two_bars_figure
from miniinfer.figures.kv.words import count, exact
from miniinfer.provenance import Provenance
from miniinfer.trace.kv.prediction import (
    TOKENS,
    branch_cost,
    is_close,
    next_block_step,
    slip,
    tensor_bytes,
    written_by_phase,
)
from miniinfer.ui.kv.look import LiveLook
from miniinfer.ui.page import card, run_action
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

ROUNDS = "kv_rounds"
UNITS = {"B": 1, "kB": 1_000, "KiB": 2**10, "MB": 1_000_000, "MiB": 2**20, "GiB": 2**30}
COSTS = ("nothing", "one block", "as much as the whole run")
SECONDS = 20  # the most that a reveal may step


@dataclass(frozen=True)
class Round:
    """One guess and what the run said. bars: names and bytes that show it."""

    question: str
    guess: str
    answer: str
    right: bool
    why: str
    bars: tuple[tuple[str, int], ...] = ()


def draw_predict(look: LiveLook) -> None:
    """Rounds are kept by run, so that going to another run does not mix them."""
    left, right = st.columns([4, 7], gap="large")
    with left:
        chosen = st.radio("Question", list(QUESTIONS), key="kv_question", persist_state="session")
        round_ = QUESTIONS[chosen](look)
        if round_ is not None:
            _reveal(look, round_)
    rounds = _rounds(look)
    with right:
        if not rounds:
            with card("The answer will stand here"):
                st.text("Counted in this run, with what may have gone wrong in a guess.")
            return
        newest = rounds[-1]
        st.markdown("**Right**" if newest.right else "**Not quite**")
        st.text(f"Your guess: {newest.guess}. The run: {newest.answer}. {newest.why}")
        if newest.bars:
            names, values = zip(*newest.bars, strict=True)
            st.plotly_chart(
                two_bars_figure(names, values, "bytes", look.colours), key="kv_answer", config=PLOT,
                alt="The answer as bars",
            )
        st.text(f"All rounds of this run: {sum(r.right for r in rounds)} of {len(rounds)} right.")
        draw_table_twin(_table(rounds), "kv_rounds", Provenance.COMPUTED, "predictions.csv")


def _rounds(look: LiveLook) -> list[Round]:
    """Of this run, in order."""
    return st.session_state.setdefault(ROUNDS, {}).setdefault(look.run.info.run_id, [])


def _guess(look: LiveLook, name: str) -> DeltaGenerator:
    """A form that is another one after each round, so that the second half of a double click reveals nothing."""
    return st.form(f"kv_guess_{name}_{len(_rounds(look))}", border=False)


def _reveal(look: LiveLook, ask: Callable[[], Round]) -> None:
    def reveal() -> None:
        found = ask()
        if found not in _rounds(look)[-1:]:  # the same guess at the same answer is no second one
            _rounds(look).append(found)

    run_action("kv", reveal)


def _tokens(look: LiveLook) -> Callable[[], Round] | None:
    with _guess(look, "tokens"):
        one, two = st.columns([3, 2])
        number = one.number_input(
            f"Bytes of {TOKENS} tokens", 0.0, 1e12, value=None, placeholder="your guess", key="kv_guess_number"
        )
        unit = two.selectbox("Unit", list(UNITS), index=3, key="kv_guess_unit")
        pressed = st.form_submit_button("Reveal", type="primary")
    if not pressed:
        return None

    def ask() -> Round:
        if number is None:
            raise BadInputError("Write down a guess first: a number of bytes, in the unit beside it.")
        if not look.run.steps:
            look.session.step_to(1, seconds=SECONDS)
        held = look.session.look([look.live], lambda: tensor_bytes(look.live))
        guess, answer = round(number * UNITS[unit]), held.of(TOKENS)
        right = is_close(guess, answer)
        why = None if right else slip(guess, answer, look.run.info.model, look.run.info.itemsize)
        return Round(
            f"{TOKENS} tokens", exact(guess), exact(answer), right,
            f"The tensors that hold this run's {count(held.positions, 'position')} have {exact(held.bytes)}: "
            f"{exact(held.of(1))} each. {why or ''}".strip(),
            (("your guess", guess), ("the run", answer)),
        )

    return ask


def _longer(look: LiveLook) -> Callable[[], Round] | None:
    with _guess(look, "longer"):
        guess = st.radio(
            "When the run has ended: which wrote more bytes into the cache?", ["prefill", "decode", "equal"],
            key="kv_guess_phase",
        )
        pressed = st.form_submit_button("Run to the end and reveal", type="primary")
    if not pressed or guess is None:
        return None

    def ask() -> Round:
        _to_the_end(look)
        found = written_by_phase(look.run.steps)
        return Round(
            "the longer bar", guess, found.longer, guess == found.longer,
            f"Prefill: {count(found.prefill_steps, 'step')}, {exact(found.prefill_bytes)}. Decode: "
            f"{count(found.decode_steps, 'step')}, {exact(found.decode_bytes)}. A position costs the same whichever "
            "step writes it; the newest token is not in the cache yet.",
            (("prefill", found.prefill_bytes), ("decode", found.decode_bytes)),
        )

    return ask


def _next_block(look: LiveLook) -> Callable[[], Round] | None:
    step = look.step
    with _guess(look, "block"):
        guess = st.number_input(
            f"You are at step {step}. Which step takes the run's next block?", step + 1, None, step=1,
            value=step + 1, key=f"kv_guess_step_{step}", help="A block is taken when it is needed, none in advance.",
        )
        pressed = st.form_submit_button("Step on and reveal", type="primary")
    if not pressed:
        return None

    def ask() -> Round:
        if step == 0:
            look.session.step_to(1, seconds=SECONDS)
        start, size = max(step, 1), look.run.info.block_size
        while (found := next_block_step(look.run.steps, start)) is None and look.run.finish_reason is None:
            look.session.step_to(len(look.run.steps) + 1, seconds=SECONDS)
        look.session.timeline.cursor = found or len(look.run.steps)
        if found is None:
            return Round("the next block", f"step {guess}", "none", False,
                         f"The run ended ({look.run.finish_reason}) before its last block was full.")  # fmt: skip
        before = look.run.steps[found - 2]
        return Round(
            "the next block", f"step {guess}", f"step {found}", int(guess) == found,
            f"After step {found - 1} there were {before.context_len} positions in blocks of {size}, all full; the next "
            "one had to open another.",
        )

    return ask


def _a_branch(look: LiveLook) -> Callable[[], Round] | None:
    with _guess(look, "branch"):
        guess = st.radio(
            f"A branch at step {look.step}: what does it cost in the moment it is made?", COSTS, key="kv_guess_cost"
        )
        pressed = st.form_submit_button("Try it and reveal", type="primary")
    if not pressed or guess is None:
        return None

    def ask() -> Round:
        cost = look.session.look([look.live], lambda: branch_cost(look.live, look.step))
        answer = COSTS[0] if cost.at_once == 0 else exact(cost.at_once)
        how = "by copying the shared one that it writes into" if cost.copied else "a new one, for the last was full"
        later = f"takes {exact(cost.first_step)}, {how}" if cost.first_step else "takes no block"
        return Round(
            "a branch", guess, answer, guess == answer,
            f"Allocated in the pool before: {exact(cost.before)}, with the branch: {exact(cost.forked)}. Its blocks "
            f"are the trunk's, counted twice. Its first step {later}. (The branch was tried and removed again.)",
            (("before", cost.before), ("with the branch", cost.forked), ("after its first step", cost.stepped)),
        )

    return ask


QUESTIONS: dict[str, Callable[[LiveLook], Callable[[], Round] | None]] = {
    f"How many bytes will {TOKENS} tokens take?": _tokens,
    "Which bar is longer, prefill or decode?": _longer,
    "When will the next block be taken?": _next_block,
    "What does a branch cost?": _a_branch,
}


def _to_the_end(look: LiveLook) -> None:
    look.session.step_to(2**30, seconds=SECONDS)
    if look.run.finish_reason is None:
        raise MiniInferError(f"The run did not end within {SECONDS} s: step on, or play it to its end, and ask again.")


def _table(rounds: list[Round]) -> pd.DataFrame:
    return pd.DataFrame([
        {"question": r.question, "guess": r.guess, "the run": r.answer, "right": "yes" if r.right else "no",
         "why": r.why}
        for r in rounds
    ])  # fmt: skip
