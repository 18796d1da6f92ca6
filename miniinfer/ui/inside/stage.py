"""Stage by stage: the program as a map, what the stage that just ran read and wrote, its formula and its source."""

from __future__ import annotations

from typing import Any

import streamlit as st

from miniinfer.errors import MiniInferError
from miniinfer.figures.inside.map import program_map
from miniinfer.figures.inside.tables import fields_table
from miniinfer.trace.inside.breakpoints import Hit
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.inside.records import FieldLook, StageLook
from miniinfer.ui.inside.breaks import chosen_breakpoints, draw_breakpoints
from miniinfer.ui.inside.look import InsideLook
from miniinfer.ui.inside.source import draw_source
from miniinfer.ui.inside.values import draw_values
from miniinfer.ui.mount import ask_of, mount_program

FIRST = "embed"  # the page opens after this stage: the first one that makes numbers
MOST_FIELDS = 7  # rows of the table; a stage with more scrolls in it
NUMBER = st.column_config.NumberColumn(format="%.3g", width=50)
COLUMNS = {
    "": st.column_config.TextColumn(width=32), "field": st.column_config.TextColumn(width=98),
    "shape or content": st.column_config.TextColumn(width=128), "norm": NUMBER, "min": NUMBER, "max": NUMBER,
    "not finite": st.column_config.NumberColumn(format="localized", width=64),
}  # fmt: skip


def draw_stage(look: InsideLook) -> None:
    """Moves first, then draws: the map, the tables and the values are of one and the same place."""
    here = (look.run.info.run_id, id(look.run), look.rows)
    state = st.session_state
    if state.get("inside_of") != here:
        state["inside_of"], state["inside_hit"] = here, None
        if "inside_pc" not in state:
            state["inside_pc"] = 1 + next(i for i, s in enumerate(look.run.engine.program) if s.name == FIRST)
    ask, state["inside_ask"] = state.get("inside_ask"), None
    # All steps of a run have one program: a key pressed while the next step came into view is meant for that step.
    if ask and ask.get("run") == look.run.info.run_id and ask.get("step") in range(1, len(look.run.steps) + 2):
        _move(look, ask)
    pc = int(state["inside_pc"])  # the question runs in the engine's thread, which has no session state
    stage = look.ask(lambda inside: _at(inside, pc))
    left, middle, right = st.columns([27, 46, 46], gap="medium")
    with left:
        _map(look)
        _hit(look)
        draw_breakpoints(look)
        _commit(look)
    if stage is None:
        with middle:
            st.text("Nothing has run yet. Step, or click a stage of the map: what it reads and writes will stand here.")
        return
    with middle:
        field = _stage(look, stage)
    with right:
        if field is None:
            st.text("This stage moves no tensor: what it read and wrote stands in the table, in words.")
        else:
            draw_values(look, stage, field)


def _at(inside: StepInside, pc: int) -> StageLook | None:
    inside.goto(min(pc, len(inside.program)))
    return inside.look()


def _move(look: InsideLook, ask: dict[str, Any]) -> None:
    """What the map asked for; an ask that makes no sense changes nothing."""
    state, pc = st.session_state, ask.get("pc")
    total = len(look.run.engine.program)
    if isinstance(pc, bool) or not isinstance(pc, int) or not 0 <= pc <= total:
        return
    state["inside_pc"], state["inside_hit"] = pc, None
    asked = ask.get("n")
    state["inside_asked"] = asked if isinstance(asked, int) and not isinstance(asked, bool) else 0
    if ask.get("go") == "run":
        breakpoints = chosen_breakpoints(look)

        def run_on(inside: StepInside) -> tuple[int, Hit | None]:
            inside.goto(pc)
            hit = inside.run_on(breakpoints)
            return inside.pc, hit

        state["inside_pc"], state["inside_hit"] = look.ask(run_on)


def _map(look: InsideLook) -> None:
    state = st.session_state
    hit: Hit | None = state.get("inside_hit")
    data = program_map(
        look.run.engine.program, min(int(state["inside_pc"]), len(look.run.engine.program)), step=look.rows.step,
        run_id=look.run.info.run_id, asked=state.get("inside_asked", 0), marked=hit.pc if hit else None,
    )

    def on_ask() -> None:
        asked = ask_of("program")
        if isinstance(asked, dict):
            state["inside_ask"] = asked

    mount_program(data, on_ask)


def _hit(look: InsideLook) -> None:
    hit: Hit | None = st.session_state.get("inside_hit")
    if hit is not None:
        with st.container(key="inside_hit"):
            where = f"layer {hit.layer}, {hit.stage}" if hit.layer is not None else hit.stage
            st.text(f"Stopped after {where}: {hit.why}.")


def _commit(look: InsideLook) -> None:
    """Make the next step real. The replay is thrown away; the run makes the step itself, with the same result."""
    if look.rows.made:
        return
    step = look.rows.step
    if st.button(
        f"Make step {step} real", key="inside_commit", type="primary", width="stretch",
        help="So far only a throwaway fork has computed it. The run takes the step now, and the cursor moves to it.",
    ):
        try:
            look.session.step_to(step, seconds=60)
        except MiniInferError as error:
            look.session.error = str(error)
        st.rerun()


def _stage(look: InsideLook, stage: StageLook) -> FieldLook | None:
    """The head, the formula, the fields and the source. Gives the field whose values are looked at."""
    where = f"Layer {stage.layer} of {look.layers} · " if stage.layer is not None else ""
    with st.container(key="inside_where"):
        st.markdown(f"**{where}{stage.name}**")
        st.text(_sentence(look, stage))
    st.latex(stage.formula)
    tall = len(stage.fields) > MOST_FIELDS
    st.dataframe(
        fields_table(stage), hide_index=True, column_config=COLUMNS, row_height=26, width="stretch", placeholder="",
        height=26 * (MOST_FIELDS + 1) + 8 if tall else "content", key="inside_fields",
    )
    field = _choose(stage)
    draw_source(stage)
    return field


def _sentence(look: InsideLook, stage: StageLook) -> str:
    """The stage's own sentence; which logits processor it is is the sequence's choice."""
    program = look.run.engine.program[stage.pc - 1]
    if program.processor is None:
        return stage.sentence
    params = look.run.params_of(look.rows.step) if look.rows.made else look.run.seq.params
    name = params.order[program.processor] if program.processor < len(params.order) else None
    which = f"Here it is {name}." if name else "This run's order has fewer processors: nothing is applied."
    return f"{stage.sentence} {which}"


def _choose(stage: StageLook) -> FieldLook | None:
    """Pills of all tensors; the name chosen before stays chosen where this stage writes it."""
    tensors = [f for f in stage.fields if f.facts is not None]
    if not tensors:
        return None
    state, key = st.session_state, "inside_field"
    labels = {f"{'in' if f.role == 'reads' else 'out'}: {f.name}": f for f in tensors}
    if state.get(key) not in labels:
        wanted = str(state.get("inside_field_name"))
        rated = sorted(labels, key=lambda label: _rank(labels[label], wanted))
        state[key] = rated[0]
    chosen = st.pills("Tensor whose values are shown", list(labels), key=key, required=True)
    field = labels[chosen or next(iter(labels))]
    state["inside_field_name"] = field.name
    return field


def _rank(field: FieldLook, wanted: str) -> tuple[bool, bool, int]:
    """What was written comes first, of that the name wanted, then the largest."""
    assert field.facts is not None
    return field.role != "writes", field.name != wanted, -field.facts.count
