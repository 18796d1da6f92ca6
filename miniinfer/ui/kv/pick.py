"""The pickers that two views share: layer, KV head, position, and which query heads share that KV head."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.words import count, exact
from miniinfer.trace.kv.vectors import query_heads
from miniinfer.ui.kv.look import LiveLook, keep_within
from miniinfer.ui.page import draw_before_first_token
from miniinfer.ui.run_look import first_step_tokens


def pick_head(look: LiveLook) -> tuple[int, int]:
    """Layer and KV head; they begin at the run's own telling head."""
    model = look.run.info.model
    layer, head = look.run.info.default_head or (0, 0)
    keep_within("kv_layer", layer, 0, model.num_layers - 1)
    keep_within("kv_head_number", head // model.group_size, 0, model.num_kv_heads - 1)
    chosen = st.number_input(
        f"Layer, 0 to {model.num_layers - 1}", 0, model.num_layers - 1, step=1, key="kv_layer", persist_state="session",
        help="Every layer has its own keys and values.",
    )
    kv_head = st.number_input(
        f"KV head, 0 to {model.num_kv_heads - 1}", 0, model.num_kv_heads - 1, step=1, key="kv_head_number",
        persist_state="session", help="One key and one value for each position.",
    )
    return int(chosen), int(kv_head)


def pick_position(look: LiveLook) -> int:
    """The newest position follows the cursor; any other stays where it is."""
    newest = look.context_len - 1
    follow = st.toggle("Newest position", value=True, key="kv_follow", persist_state="session",
                       help="Follows the step; switch it off to hold one position.")  # fmt: skip
    if follow:
        st.session_state["kv_position"] = newest
    keep_within("kv_position", newest, 0, newest)
    position = st.number_input(f"Position, 0 to {newest}", 0, newest, step=1, key="kv_position", disabled=follow)
    return int(position)


def draw_sharing(look: LiveLook, kv_head: int) -> None:
    """Every query head under the KV head that it reads."""
    model = look.run.info.model
    groups = []
    for number in range(model.num_kv_heads):
        heads = query_heads(model.num_heads, model.num_kv_heads, number)
        chips = "".join(f"<span>q {head}</span>" for head in heads)
        mark = " chosen" if number == kv_head else ""
        groups.append(f'<div class="kv-group{mark}"><b>kv {number}</b>{chips}</div>')
    st.html(f'<div class="kv-sharing">{"".join(groups)}</div>')
    if model.group_size == 1:
        st.caption("Every query head has a KV head of its own: no GQA in this model.")
        return
    st.caption(
        f"GQA: {model.num_heads} query heads / {model.num_kv_heads} KV heads = {model.group_size} that share one. "
        f"Without it the cache would be {model.group_size} times as large."
    )


def draw_empty(look: LiveLook) -> None:
    """Before the first step: what it will write, and into how many blocks."""
    info = look.run.info
    new = first_step_tokens(look.live)
    blocks = -(-new // info.block_size)
    prompt = f"the prompt's {'first ' if new < info.num_prompt_tokens else ''}{count(new, 'token')}"
    draw_before_first_token(look.session, "kv", "The cache of this run is empty. What will the first step write?", [
        f"Step 1 sends {prompt} through the model. Each layer makes a key and a value for each KV head: "
        f"{exact(look.position_bytes)} a position, {exact(new * look.position_bytes)} in all, into "
        f"{count(blocks, 'block')} of {info.block_size} slots ({exact(blocks * info.block_size * look.position_bytes)} "
        "allocated).",
        "The keys and values of the prompt, which query heads share them, and how the newest query reads them will "
        "stand here. At the left: the query heads of this model under the KV head that they share.",
    ])  # fmt: skip
