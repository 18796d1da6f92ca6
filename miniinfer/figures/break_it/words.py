"""What two runs side by side show, in sentences with the runs' own numbers."""

from __future__ import annotations

import math

from miniinfer.trace.compare import StageDifference, TokenPair
from miniinfer.trace.lockstep import LockstepRecord
from miniinfer.trace.text_loss import TextLoss

CLOSE = 0.01  # log(p1 / p2), below which another order of summation may choose otherwise


def amount(value: float) -> str:
    """Three significant digits; what no number can say is said in words."""
    if math.isinf(value):
        return "∞"
    return "0" if value == 0 else f"{value:.3g}"


def place(difference: StageDifference) -> str:
    """attn_scores, layer 0."""
    return difference.stage if difference.layer is None else f"{difference.stage}, layer {difference.layer}"


def first_stage(record: LockstepRecord) -> tuple[str, str]:
    """Where the first tensor differs, and by how much."""
    if record.first is None:
        return "none", f"{record.steps} {_plural('step', record.steps)} compared: every tensor is equal, bit for bit"
    difference, shapes = record.first.difference, record.first.shapes
    where = f"step {record.first.step}, {record.first.phase} · {difference.name}"
    if shapes[0] != shapes[1]:
        return place(difference), f"{where} · {_shape(shapes[0])} in one, {_shape(shapes[1])} in the other"
    if math.isinf(difference.largest):
        return place(difference), f"{where} · one side hides (−∞) what the other sees"
    return place(difference), f"{where} · differs by up to {amount(difference.largest)}"


def first_token(record: LockstepRecord) -> tuple[str, str]:
    """Which output token differs first, and how sure the less sure side was there."""
    comparison = record.comparison
    index = comparison.first_difference
    if index is None:
        if comparison.common < len(comparison.pairs):
            return f"after {comparison.common}", "one side ends there; up to its end all tokens are equal"
        return "none", f"all {comparison.common} output tokens are equal"
    pair = comparison.pairs[index]
    return f"output token {index + 1}", _margin(pair)


def _margin(pair: TokenPair) -> str:
    if pair.margin is None:
        return "how sure they were is not known"
    sure = "a near tie" if pair.margin < CLOSE else f"margin {amount(pair.margin)}"
    return f"{sure}: ln(p1 / p2) of the two best, the smaller of both sides"


def loss(pair: tuple[TextLoss, TextLoss]) -> tuple[str, str]:
    """Both means, and the change."""
    healthy, broken = (side.mean for side in pair)
    if pair[0].nats == pair[1].nats:
        return f"{healthy:.4f}", "equal, bit for bit"
    change = broken - healthy
    return f"{healthy:.4f} → {broken:.4f}", f"{'+' if change >= 0 else '−'}{amount(abs(change))} nats a token"


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
