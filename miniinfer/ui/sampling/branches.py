"""The tree of runs: walk it with a click, name a run, type a continuation."""

from __future__ import annotations

from typing import Any

import streamlit as st

from miniinfer.figures.sampling.run_tree import tree_figure
from miniinfer.figures.sampling.tables import tree_table
from miniinfer.models.display import visible
from miniinfer.provenance import Provenance
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.tree import TreeNode, tree_of
from miniinfer.ui.page import run_action
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.sampling.look import Look, probabilities
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin

MOST_TYPED = 64  # tokens; each is a step of the model
COLUMNS = probabilities("model assigned", "settings assigned", "model assigned to that") | {
    name: st.column_config.NumberColumn(f"{name}, bytes", format="localized")
    for name in ("KV used", "KV allocated", "shared, used", "shared, allocated")
}
TREE, OPENED = "sampling_tree_figure", "sampling_tree_opened"


def draw_branches(look: Look) -> None:
    session = look.session
    if st.session_state.pop(OPENED, False):
        st.rerun()  # a click in the tree has opened a run: the frame's transport stands on it too
    typing, naming = st.columns([3, 2], gap="medium")
    with typing:
        _continuation(look)
    with naming:
        _name(look)
    session.bring_back_all()
    runs = list(session.timeline)
    nodes = session.look(runs, lambda: tree_of(runs))
    st.markdown("**Where did the runs part, and what did each token have?**")
    run_id = look.run.info.run_id
    st.plotly_chart(
        tree_figure(nodes, run_id, session.timeline.cursor, _own_text, look.colours), key=TREE, config=PLOT,
        on_select=lambda: open_clicked(session), selection_mode="points", theme=None,
        alt="The runs of this session as a tree; the table below has the same figures",
    )
    if len(nodes) == 1:
        st.caption(
            "One run so far. A branch starts where you force a token (Any token), type a continuation, or use other "
            "settings from here; it then stands in this tree with the probability of the token that it took."
        )
    else:
        _shared(look, nodes)
    with st.expander("Table of the tree"):
        frame = tree_table(nodes, run_id, _own_text)
        draw_table_twin(frame, "sampling_tree", Provenance.COMPUTED, "tree.csv", columns=COLUMNS)


def _own_text(token: TokenInfo) -> str:
    """As the run of the token has it: the runs of a session may have different models."""
    return visible(token.text)


def open_clicked(session: Session) -> None:
    """Open the run of the dot that was clicked, at that dot's step."""
    selected: Any = st.session_state.get(TREE)
    for point in selected["selection"]["points"] if selected else ():
        data = point.get("customdata")
        if data and data[0] in session.timeline:
            session.timeline.open(data[0])
            session.timeline.cursor = int(data[1])
            st.session_state[OPENED] = True
            return


def _shared(look: Look, nodes: tuple[TreeNode, ...]) -> None:
    """What the run looked at shares with its trunk, in positions and in blocks, and where these numbers come from."""
    mine = next((node for node in nodes if node.run is look.run), None)
    if mine is None or mine.kv is None or mine.kv.shared_positions is None:
        st.caption("Beside a violet edge: what the model assigned to the token. Click a dot to look at its step.")
        return
    kv, trunk = mine.kv, mine.run.info.parent
    if kv.shared_positions:
        now = (
            f"It still shares {kv.shared_positions:,} of them with {trunk}: {kv.shared_used_bytes:,} bytes used, in "
            f"blocks of {kv.shared_allocated_bytes:,} bytes allocated, which stand in memory once."
        )
    else:
        now = f"It shares none of them with {trunk} now: their block was copied when one of the two wrote into it."
    st.caption(
        f"{mine.run.info.run_id} took over {kv.taken_over:,} positions of {trunk} and did not compute them again. "
        f"{now} Bytes: {Provenance.COMPUTED.value} from positions, blocks and block tables; probabilities: "
        f"{Provenance.COMPUTED.value} from the kept final-norm vectors."
    )


def _name(look: Look) -> None:
    session, info = look.session, look.run.info
    with st.form("sampling_rename", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(
            f"Name of {info.run_id}, the run you are in", value=info.name, max_chars=40,
            key=f"sampling_name_{info.run_id}",
        )
        if st.form_submit_button("Rename"):
            run_action("sampling", lambda: session.rename(info.run_id, name))


def _continuation(look: Look) -> None:
    session, step = look.session, look.place.step
    form = st.form("sampling_continuation", border=False, clear_on_submit=True)
    with form, st.container(horizontal=True, vertical_alignment="bottom"):
        typed = st.text_input(
            f"Type how the text goes on from step {step}", key="sampling_typed",
            help="Your text becomes tokens, and a branch takes them one after another. Words usually carry their "
            "space in front.",
        )
        start = st.form_submit_button("Branch with this")
    if not start:
        return
    ids = look.model.tokenizer.encode(typed, parse_special=False) if typed else []
    if len(ids) > MOST_TYPED:
        st.text(f"That is {len(ids)} tokens; at most {MOST_TYPED} are taken at once. Shorten it, or type it in parts.")
        return
    name = f"step {step}: “{visible(typed)}”"
    run_action("sampling", lambda: session.continue_with(step, ids, name if len(name) <= 40 else name[:39] + "…"))
