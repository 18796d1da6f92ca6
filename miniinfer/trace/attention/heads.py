"""Which one of hundreds of attention heads to show first."""

from __future__ import annotations

from miniinfer.trace.records import ByteArray


def far_reading_head(rows: ByteArray) -> tuple[int, int]:
    """(layer, head) whose row gives the largest weight to a token that is neither the first, nor the newest, nor the
    one before it: the head with the most to tell about what the newest token reads. rows [L, H, C] u8.

    With fewer than four positions no such token exists; then the first token alone is left out, then nothing.
    Ties go to the lowest layer, then head.
    """
    count = rows.shape[2]
    low, high = (1, count - 2) if count >= 4 else (min(1, count - 1), count)
    best = rows[:, :, low:high].max(axis=2)
    layer, head = divmod(int(best.argmax()), rows.shape[1])
    return layer, head
