"""What a token costs, in words: quantities with their units, and the names of stages."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.figures.kv.words import count
from miniinfer.figures.sampling.words import LABELS
from miniinfer.measure.records import Calibration, OnOff, Stats, StepTimes

PROCESSOR = "processor_"
GAP = "between the stages"
BUSY = 2.0  # 90th over 10th percentile of the rounds
ABOUT_ONE = 1.5  # a ratio up to here is "about 1" on screen


def ms(value: float) -> str:
    """Milliseconds, or seconds from 10,000 of them on: three digits."""
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def megabytes(value: float) -> str:
    """Millions of bytes: three digits."""
    shown = value / 1e6
    return f"{shown:,.0f} MB" if shown >= 100 else f"{shown:.1f} MB" if shown >= 1 else f"{shown:.3f} MB"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times" if ratio >= 2 else f"{ratio:.2f} times"


def stage_name(stage: str, order: Sequence[str]) -> str:
    """A logits processor is called by what stands at its place in the run's order."""
    if not stage.startswith(PROCESSOR):
        return stage
    place = int(stage.removeprefix(PROCESSOR)) - 1
    return LABELS[order[place]] if place < len(order) else f"processor {place + 1} (none)"


def rounds(stats: Stats) -> str:
    """How a figure was taken."""
    return f"measured, median of {stats.rounds}, {stats.warm_up} before thrown away"


def busy_note(found: Sequence[Stats]) -> str:
    """A sentence, with a blank in front, if the rounds of one figure differ widely; else nothing."""
    widest = max((s.p90_ms / s.p10_ms for s in found), default=1.0)
    if widest < BUSY:
        return ""
    return f" The machine was busy: rounds differ {widest:.1f} times. Ratios by round hold better; or measure again."


def step_sentence(step: StepTimes) -> str:
    """One phase in a line."""
    plain = step.plain
    each = f", {ms(plain.median_ms / step.num_tokens)} a token" if step.num_tokens > 1 else ""
    what = (
        f"Prefill of {step.num_tokens:,} tokens" if step.phase == "prefill"
        else f"Decode of one token with {step.context_len:,} in the cache"
    )
    return (
        f"{what}: {ms(plain.median_ms)}{each} ({rounds(plain)}). With a clock at every stage "
        f"{ms(step.watched.median_ms)}; the stages add up to all but {step.gap_ms / step.step_ms:.1%} of it."
        + busy_note([plain])
    )


def machine_sentence(found: Calibration) -> str:
    rates = ", ".join(f"{name} {rate / 1e9:,.0f} GFLOP/s" for name, rate in found.operations_per_second.items())
    return (
        f"This machine ({found.machine.processor}, {count(found.machine.threads, 'thread')}): memory "
        f"{found.bytes_per_second / 1e9:.1f} GB/s, {rates} (measured, medians of {found.rounds}, {found.warm_up} "
        "before thrown away)."
    )


def gain_sentence(lengths: Sequence[OnOff]) -> str:
    """How much the cache brings, short and long."""
    short, long = lengths[0], lengths[-1]
    about = (
        "about 1: the step reads all weights either way, and a few positions more hardly count"
        if short.ratio <= ABOUT_ONE else "the least of all"
    )
    return (
        f"At {short.context_len:,} tokens a step without the cache takes {short.ratio:.2f} times as long, {about}. At "
        f"{long.context_len:,} it takes {times(long.ratio)} as long, although it computes {long.context_len:,} "
        "positions in place of 1: many positions share one reading of the weights."
    )
