"""The same position computed both ways: in one pass with all before it (prefill), and alone, with keys and values of
the others read from the run's cache (decode). The mathematics is the same; only the order of summation differs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miniinfer.trace.capture import StageTensor
from miniinfer.trace.compare import StageComparison, compare_stages
from miniinfer.trace.inside.stage_rows import RowCapture
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.replay import one_pass

SAMPLERS = ("logits", "probs")


@dataclass(frozen=True)
class TwoWays:
    """prefill, decode: what each stage up to the raw logits wrote for the position, in the order of the program, entry
    by entry the same. What follows is the sampler's: where it cuts, a rounding may be the difference to minus infinity.

    comparison: largest absolute difference of each. scales: the largest magnitude of each, to judge it by.
    """

    position: int
    prefill: tuple[StageTensor, ...]
    decode: tuple[StageTensor, ...]
    comparison: StageComparison
    scales: tuple[float, ...]

    @property
    def relative(self) -> float:
        """The largest difference in units of its own tensor's largest magnitude."""
        pairs = zip(self.comparison.differences, self.scales, strict=True)
        return max((d.largest / scale for d, scale in pairs if scale > 0), default=0.0)


def compare_both_ways(run: LiveRun, position: int) -> Parts[TwoWays]:
    """`position` must be one that the run has computed, or the next. Raises MiniInferError. In the engine's thread."""
    captures = []
    rows = position + 2  # of both passes together
    for start, before in ((0, 0), (position, position + 1)):
        capture = RowCapture(position)
        for share in one_pass(run, position, start, capture):
            yield (before + share * (position + 1 - start)) / rows
        captures.append(tuple(t for t in capture.tensors if t.name not in SAMPLERS))
    prefill, decode = captures
    scales = tuple(_scale(t) for t in prefill)
    return TwoWays(position, prefill, decode, compare_stages(prefill, decode), scales)


def _scale(tensor: StageTensor) -> float:
    finite = tensor.values[np.isfinite(tensor.values)]
    return float(np.abs(finite).max()) if finite.size else 0.0
