"""The pool: its blocks and their owners, the run's block table, copies, and what another block size would cost."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.kv.pool_plots import block_sizes_figure, pool_figure
from miniinfer.figures.kv.tables import block_sizes_table, block_table, blocks_table, copies_table
from miniinfer.figures.kv.words import next_write_words, pool_words, waste_words
from miniinfer.provenance import Provenance
from miniinfer.trace.kv.pool import PoolView
from miniinfer.trace.run import ChangeParams
from miniinfer.ui.kv.look import LiveLook, thousands
from miniinfer.ui.page import run_action
from miniinfer.ui.room import taller
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

SIZES = (1, 4, 8, 16, 32, 64, 128, 256)


def draw_blocks(look: LiveLook) -> None:
    pool = look.pool()
    left, right = st.columns([2, 9], gap="medium")
    with left, st.container(key="kv_pick"):
        _block_size(look, pool)
        _branch(look)
    with right:
        st.text(pool_words(pool))
        st.plotly_chart(
            taller(pool_figure(pool, _place(look, pool), look.colours)), key="kv_pool", config=PLOT,
            alt="Physical blocks and how full they are",
        )
        st.text(f"{waste_words(pool)} {next_write_words(pool.next_write, look.run.finish_reason)}")
        last = len(look.run.steps)
        st.caption(
            f"The pool as it is now, after step {last} of this run."
            + (f" The ring marks the newest position of step {look.step}." if look.step else "")
        )
        one, two = st.columns(2, gap="medium")
        with one:
            st.markdown("**Where do this run's positions lie?**")
            draw_table_twin(block_table(pool), "kv_table", Provenance.COMPUTED, "block_table.csv", narrow=True)
        with two:
            st.markdown("**Which blocks were copied before a write?**")
            if pool.copies:
                table = copies_table(pool)
                draw_table_twin(
                    table, "kv_copies", Provenance.COMPUTED, "copy_on_write.csv", columns=thousands(table), narrow=True
                )
            else:
                st.caption(
                    "None so far. A branch shares its trunk's blocks; the first of the two that writes into a shared "
                    "block copies it, and the copy is listed here."
                )
        with st.expander("Table: every physical block"):
            every = blocks_table(pool)
            draw_table_twin(every, "kv_blocks", Provenance.COMPUTED, "blocks.csv", columns=thousands(every))
        _other_sizes(look, pool)


def _place(look: LiveLook, pool: PoolView) -> tuple[int, int] | None:
    """Block and slot of the newest position of the step looked at, as the table stands now."""
    if look.context_len == 0 or not pool.table:
        return None
    index, slot = divmod(look.context_len - 1, pool.block_size)
    return (pool.table[index].block, slot) if index < len(pool.table) else None


def _block_size(look: LiveLook, pool: PoolView) -> None:
    session, info = look.session, look.run.info
    sizes = sorted({*SIZES, session.block_size})
    st.session_state["kv_block_size"] = session.block_size
    chosen = st.selectbox(
        "Block size, from the next run on", sizes, key="kv_block_size",
        format_func=lambda n: f"{n} slot{'s' if n > 1 else ''}", on_change=lambda: session.choose_block_size(
            int(st.session_state["kv_block_size"])
        ),
        help="Takes effect with the next new run, in a pool of its own. This run and its branches keep theirs.",
    )
    assert chosen is not None
    if session.block_size != pool.block_size:
        st.caption(f"This run has blocks of {pool.block_size}; the next new run gets blocks of {session.block_size}.")
    else:
        st.caption(f"This run has blocks of {pool.block_size}. Another choice takes effect with the next new run.")
    if st.button(
        f"Run the prompt again with {session.block_size}", key=f"kv_run_again_{info.run_id}", width="stretch",
        disabled=session.model is None,
        help="A new run of the same prompt and settings, stepped as far as this one. Tokens and values stay the same.",
    ):
        def again() -> None:
            step = look.step
            session.new_run(info.prompt, info.params, chat=info.chat, one_pass=info.one_pass)
            session.step_to(step, seconds=5)

        run_action("kv", again)


def _branch(look: LiveLook) -> None:
    """A branch without any change: to see blocks being shared, and one of them copied at the next step. The button is
    the run's, so that the second half of a double click does not branch the branch."""
    meta = look.meta
    ready = meta is not None and meta.token_id is not None
    if st.button(
        "Branch here", key=f"kv_branch_{look.run.info.run_id}", width="stretch", disabled=not ready,
        help="A branch at this step with the same settings. It costs no block until one of the two writes into a "
        "shared one." if ready else "Possible at a step that chose a token.",
    ):
        run_action("kv", lambda: look.session.branch(ChangeParams(look.step, look.live.params_of(look.step))))


def _other_sizes(look: LiveLook, pool: PoolView) -> None:
    with st.expander("What would other block sizes cost here?"):
        table = block_sizes_table(
            pool.num_positions, pool.position_bytes, sorted({*SIZES, pool.block_size}), pool.block_size
        )
        st.plotly_chart(
            block_sizes_figure(table, look.colours), key="kv_sizes", config=PLOT,
            alt="Allocated and wasted bytes by block size",
        )
        st.caption(
            "Small blocks waste little and make long tables; large ones the other way round. The values are the same "
            "with every size."
        )
        columns = thousands(table) | {"wasted": st.column_config.NumberColumn(format="percent")}
        draw_table_twin(table, "kv_sizes", Provenance.COMPUTED, "block_sizes.csv", columns=columns)
