"""The same greedy tokens with and without the cache: proved equal, then timed at several lengths."""

from __future__ import annotations

import streamlit as st

from miniinfer.figures.cost.comparisons import cache_ratio_figure, cache_time_figure, positions_figure
from miniinfer.figures.cost.tables import cache_off_table, positions_table
from miniinfer.figures.cost.words import busy_note, gain_sentence, times
from miniinfer.measure.progress import Measurement
from miniinfer.measure.records import CacheOff
from miniinfer.provenance import Provenance
from miniinfer.ui.cost.look import CostLook, measure_button
from miniinfer.ui.cost.task import Say
from miniinfer.ui.run_look import PLOT
from miniinfer.ui.table_twin import draw_table_twin

VIEW = "cache_off"
HEIGHT = 280
MOST_PROMPT = 256  # tokens of the run's prompt; without a cache each step computes all of them
TWO, FINE = st.column_config.NumberColumn(format="%.2f"), st.column_config.NumberColumn(format="%.2g")
COLUMNS = {
    "with ms": TWO, "without ms": TWO, "ratio": TWO, "largest logit difference": FINE, "margin": TWO,
    "computed with": st.column_config.NumberColumn(help="Positions that go through the model in this step."),
    "computed without": st.column_config.NumberColumn(help="Positions that go through the model in this step."),
}  # fmt: skip


def draw_cache_off(look: CostLook) -> None:
    found: CacheOff | None = look.result(VIEW)
    measure_button(
        look, VIEW, "Run with and without the cache", lambda say: _measure(look, say),
        "The same greedy tokens both ways, then one step both ways at several lengths, in an engine of its own. The "
        "run is not touched. Up to a minute.",
    )
    if found is None:
        _counted(look)
        return
    st.markdown(f"**{_verdict(found)}**")
    st.text(gain_sentence(found.lengths) + busy_note([s for one in found.lengths for s in (one.on, one.off)]))
    left, right = st.columns(2, gap="medium")
    left.plotly_chart(
        cache_time_figure(found.lengths, look.colours, HEIGHT), key="cost_cache_time", config=PLOT,
        alt="Milliseconds of a step with and without the cache over the length",
    )
    right.plotly_chart(
        cache_ratio_figure(found.lengths, look.colours, HEIGHT), key="cost_cache_ratio", config=PLOT,
        alt="How many times as long, and how many times as many positions",
    )
    stats, info = found.lengths[0].on, look.run.info
    sources = {
        Provenance.MEASURED: f"ms, medians of {stats.rounds}, {stats.warm_up} before thrown away; ratio by round"
        + ("" if info.backend == "torch" else f"; both ways by torch, for {info.backend} has one row at a time"),
        Provenance.COMPUTED: "positions, differences and margins of logits",
    }
    draw_table_twin(cache_off_table(found), "cost_cache_off", sources, "cache-on-off.csv", columns=COLUMNS)
    with st.expander("The tokens, both ways"):
        st.text(f"with: {''.join(look.text(i) for i in found.on_ids)}")
        st.text(f"without: {''.join(look.text(i) for i in found.off_ids)}")


def _counted(look: CostLook) -> None:
    """Before anything is measured: how many positions the run's own steps computed, and would have without a cache."""
    st.text(
        "With the cache a step computes its new positions and reads the keys and values of all earlier ones. Without "
        "it every step computes all positions anew, with the same result. The proof and both times will stand here."
    )
    steps = look.run.steps
    computed, anew = sum(m.num_scheduled for m in steps), sum(m.context_len for m in steps)
    if not steps:
        return
    st.markdown(
        f"**The {len(steps):,} steps of this run computed {computed:,} positions. Without the cache: {anew:,}, "
        f"{times(anew / computed)} as many**"
    )
    st.plotly_chart(
        positions_figure(steps, look.colours, HEIGHT), key="cost_positions", config=PLOT,
        alt="Positions computed by each step, with and without the cache",
    )
    st.caption(
        "Positions that go through the model in each step. More positions are not as much more time, for they share "
        "one reading of the weights; that is what the measurement shows."
    )
    draw_table_twin(positions_table(steps), "cost_positions", Provenance.COMPUTED, "positions.csv", height=160)


def _measure(look: CostLook, say: Say) -> Measurement[CacheOff]:
    from miniinfer.measure.cache_off import LENGTHS, TOKENS, measure_cache_off

    prompt = min(look.run.info.num_prompt_tokens, MOST_PROMPT, max(1, look.most_tokens - TOKENS))
    lengths = [n for n in LENGTHS if n <= look.most_tokens]
    return measure_cache_off(look.model, list(look.run.seq.token_ids), prompt=prompt, lengths=lengths)


def _verdict(found: CacheOff) -> str:
    count = len(found.on_ids)
    compared = f"the largest difference of any logit is {found.max_difference:.1g}"
    if found.equal:
        return (
            f"The same {count} greedy tokens both ways, after {found.num_prompt_tokens:,} of the prompt; {compared}, "
            f"the closest lead of a best token {found.min_margin:.2g}"
        )
    assert found.first_difference is not None
    return (
        f"The tokens differ from output token {found.first_difference + 1} on: {compared}, and a lead was only "
        f"{found.min_margin:.1g}, a tie within rounding in this precision"
    )
