"""Knock out or scale heads and layers: what the model would have said, beside what it said. The run is untouched."""

from __future__ import annotations

import streamlit as st

from miniinfer.faults.knock_out import Scaling, WhatIf
from miniinfer.figures.attention.shift_plots import points, shift_figure
from miniinfer.figures.attention.tables import shift_table
from miniinfer.figures.sampling.words import percent
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.shift import Shift, shift_of
from miniinfer.ui.attention.each_head import draw_each_head
from miniinfer.ui.attention.look import Look, twin
from miniinfer.ui.figure import draw_figure

HEAD, GROUP, ATTENTION, MLP, LAYER = (
    "this head", "its KV group", "attention of the layer", "MLP of the layer", "whole layer",
)  # fmt: skip
HERE, EVERYWHERE = "at this position only", "at every position"
AT_ONCE = 128  # positions up to which "at every position" is computed without being asked
KEPT = 8  # results kept, so that a rerun does not compute them again
SHOWN, TABLE = 8, 60
SHIFTS = "attention_shifts"  # the session's key of the results kept
Question = tuple[str, int, tuple[Scaling, ...], bool]  # run, position, what is scaled, whether at every position


def draw_knock_out(look: Look) -> None:
    run = look.live
    assert run is not None
    left, right = st.columns([3, 7], gap="medium")
    with left, st.container(key="attention_knock_settings"):
        scalings, label = _settings(look)
        everywhere = st.segmented_control(
            "Where", [HERE, EVERYWHERE], default=HERE, key="attention_where", required=True, persist_state="session",
            help="At this position only: its row alone is computed again and reads the keys and values that the "
            "healthy run cached. At every position: the whole text up to here is computed again.",
        ) == EVERYWHERE  # fmt: skip
        key = (run.info.run_id, look.position, scalings, everywhere)
        ready = not everywhere or look.position < AT_ONCE or key in st.session_state.get(SHIFTS, {}) or st.button(
            f"Compute {look.position + 1:,} positions", key="attention_knock_compute", width="stretch",
            help="The text is prefilled again beside the run, in steps of 256 positions.",
        )  # fmt: skip
    with right:
        shift = _shift(look, run, key) if ready else None
        if shift is None:
            st.text("The next token with and without will stand here once the positions are computed.")
        else:
            _show(look, shift, label)
    draw_each_head(look, run)


def _settings(look: Look) -> tuple[tuple[Scaling, ...], str]:
    """What is scaled, and its name."""
    model = look.run.info.model
    what = st.segmented_control(
        "What to scale", [HEAD, GROUP, ATTENTION, MLP, LAYER], default=HEAD, key="attention_what", required=True,
        persist_state="session", help="Layer and head are those chosen at the top.",
    )  # fmt: skip
    factor = st.slider(
        "Factor", 0.0, 2.0, 0.0, 0.25, key="attention_factor", persist_state="session",
        help="0 knocks it out, 1 leaves it as it is, 2 doubles what it adds.",
    )
    names = [f"{i}.{j}" for i in range(model.num_layers) for j in range(model.num_heads)]
    more = st.multiselect(
        "More heads, with the same factor", names, key="attention_more", placeholder="layer.head",
        persist_state="session",
    )
    group = look.kv_head * model.group_size
    heads = {
        HEAD: (look.head,), GROUP: tuple(range(group, group + model.group_size)), MLP: (),
    }.get(what or HEAD, tuple(range(model.num_heads)))  # fmt: skip
    chosen = {(look.layer, head) for head in heads} | {(int(i), int(j)) for i, j in (n.split(".") for n in more)}
    layers = sorted({layer for layer, _ in chosen})
    scalings = [Scaling(i, factor, tuple(sorted(h for at, h in chosen if at == i))) for i in layers]
    if what in (MLP, LAYER):
        scalings.append(Scaling(look.layer, factor, mlp=True))
    named = {
        HEAD: f"head {look.head} of layer {look.layer}", GROUP: f"the {model.group_size} heads of KV head "
        f"{look.kv_head} in layer {look.layer}", ATTENTION: f"all of layer {look.layer}'s attention",
        MLP: f"the MLP of layer {look.layer}", LAYER: f"all of layer {look.layer}",
    }[what or HEAD]  # fmt: skip
    named += f" and {len(more)} more heads" if more else ""
    return tuple(scalings), f"Without {named}" if factor == 0 else f"With {named} times {factor:g}"


def _shift(look: Look, run: LiveRun, key: Question) -> Shift:
    """Kept, or computed beside the run, one step of the engine at a time, so that others are not kept waiting."""
    kept: dict[Question, Shift] = st.session_state.setdefault(SHIFTS, {})
    if key not in kept:
        kept[key] = what_if(look, run, *key[2:])
        while len(kept) > KEPT:
            del kept[next(iter(kept))]
    return kept[key]


def what_if(look: Look, run: LiveRun, scalings: tuple[Scaling, ...], everywhere: bool) -> Shift:
    """The model's next token after the position looked at, as the run had it and with the scalings."""
    trial = look.ask(lambda: WhatIf(run.engine, run.seq, look.position, scalings, everywhere=everywhere))
    try:
        while look.ask(trial.step):
            pass
        return look.ask(lambda: shift_of(run.logits_at(look.position), trial.logits))
    finally:
        look.ask(trial.release)


def _show(look: Look, shift: Shift, label: str) -> None:
    describe = look.live.describe if look.live is not None else None
    assert describe is not None

    def text(token_id: int) -> str:
        return visible(describe(token_id).text)

    was, now = int(shift.before.argmax()), int(shift.after.argmax())
    change = float(shift.change[was])
    told = (
        f"{label}, “{text(was)}” goes from {percent(float(shift.before[was]))} to {percent(float(shift.after[was]))} "
        f"({points(change)}). "
    )
    told += (
        "It stays the likeliest. " if now == was else f"“{text(now)}” is the likeliest then, with "
        f"{percent(float(shift.after[now]))}. "
    )  # fmt: skip
    told += (
        f"{points(shift.moved)[1:]} of the probability change hands; KL(before ‖ after) is {shift.divergence:.3g} nats."
    )
    st.text(told)
    draw_figure(
        shift_figure(shift, shift.leaders(SHOWN), text, look.colours), "attention_shift",
        f"{label}: the next token after position {look.position}",
    )
    st.caption(
        "Softmax of the logits after this position, no sampler settings; in a throwaway copy: the run is untouched. "
        "Figures: computed."
    )
    twin(
        f"The {TABLE} tokens that moved most", "attention_movers",
        lambda: shift_table(shift, shift.movers(TABLE), text), Provenance.COMPUTED, "movers.csv",
    )  # fmt: skip
