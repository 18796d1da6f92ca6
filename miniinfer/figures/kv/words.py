"""Words and tables of the KV cache page. Bytes that were counted are exact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from miniinfer.trace.kv.pool import NextWrite, PoolView
from miniinfer.trace.records import StepMeta

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def exact(num_bytes: int) -> str:
    """1,704,960 B."""
    return f"{num_bytes:,} B"


def about(num_bytes: float) -> str:
    """Three significant digits in a binary unit: 1.63 MiB."""
    for unit in UNITS[:-1]:
        if abs(num_bytes) < 1024:
            return f"{num_bytes:,.0f} {unit}" if unit == "B" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.3g} {UNITS[-1]}"


def spans(numbers: Sequence[int]) -> str:
    """0 to 3, 7, 9 to 12."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}" if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts) or "none"


def listed(items: Iterable[object]) -> str:
    """3, 4 and 5."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def three_numbers(meta: StepMeta | None) -> str:
    """Used, allocated and reserved at one step."""
    if meta is None:
        return "Nothing is in the cache yet: used 0 B. The first step writes the prompt's keys and values."
    return (
        f"After step {meta.step} the cache holds {count(meta.context_len, 'position')} of this run: used "
        f"{exact(meta.kv_used_bytes)} · allocated {exact(meta.kv_allocated_bytes)} (whole blocks) · reserved "
        f"{exact(meta.kv_reserved_bytes)} (the whole pool)."
    )


def next_write_words(write: NextWrite | None, finish_reason: str | None) -> str:
    """Where the next token goes, and what has to happen first."""
    if write is None:
        return (
            f"The run has ended ({finish_reason}): nothing more will be written. "
            "Its blocks stay until it is removed."
        )
    if write.block is None:
        return (
            f"The next token, position {write.position:,}, finds every block of this run full: a free block is taken "
            "from the pool first, and all its other slots stay empty for now."
        )
    if write.copied:
        return (
            f"The next token, position {write.position:,}, belongs into slot {write.slot} of block {write.block}, "
            "which other runs hold too: the block is copied first, then written (copy-on-write)."
        )
    return (
        f"The next token, position {write.position:,}, goes into slot {write.slot} of block {write.block}, which no "
        "other run holds."
    )


def waste_words(pool: PoolView) -> str:
    """What the last block of the run leaves empty."""
    if not pool.table:
        return "This run holds no block."
    slots, one = pool.waste_slots, len(pool.table) == 1
    return (
        f"{count(len(pool.table), 'block')} of {pool.block_size} slots {'holds' if one else 'hold'} "
        f"{count(pool.num_positions, 'position')}; {count(slots, 'slot')} of the last block "
        f"{'is' if slots == 1 else 'are'} empty: {exact(slots * pool.position_bytes)} allocated and not used."
    )


def pool_words(pool: PoolView) -> str:
    """The pool in one line, with how many runs lie in it: those with other blocks have a pool of their own."""
    used = len(pool.blocks) - len(pool.free)
    owners = {owner for block in pool.blocks for owner in block.owners}
    text = (
        f"Pool of {count(len(owners), 'run')}: used {exact(pool.used_bytes)} · allocated "
        f"{exact(pool.allocated_bytes)} ({count(used, 'block')}) · reserved {exact(pool.reserved_bytes)} "
        f"({count(len(pool.blocks), 'block')} of {exact(pool.block_bytes)}, the bytes of the storage itself). "
        f"Free: {spans(pool.free)}."
    )
    if pool.shared_blocks:
        text += f" {count(pool.shared_blocks, 'block')} shared, which saves {exact(pool.saved_bytes)}."
    return text
