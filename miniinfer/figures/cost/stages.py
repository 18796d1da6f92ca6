"""Stage times gathered into the few parts by which the time of a step is told."""

from __future__ import annotations

from miniinfer.measure.groups import GROUPS, group_of


def group_stage_ms(stage_ms: dict[str, float]) -> dict[str, float]:
    """Milliseconds of each part of a step, from those of its stages by name."""
    total = dict.fromkeys(GROUPS, 0.0)
    for stage, ms in stage_ms.items():
        total[group_of(stage)] += ms
    return total
