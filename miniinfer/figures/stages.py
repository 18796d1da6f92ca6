"""Stage times gathered into the few bars of a step panel."""

from __future__ import annotations

from miniinfer.measure.groups import STAGES as GROUPS


def group_stage_ms(stage_ms: dict[str, float]) -> dict[str, float]:
    """Milliseconds per group; stages of no group (schedule, prepare_inputs, embed, commit) are "other"."""
    group_of = {stage: group for group, stages in GROUPS.items() for stage in stages}
    total = dict.fromkeys((*GROUPS, "other"), 0.0)
    for stage, ms in stage_ms.items():
        total[group_of.get(stage, "other")] += ms
    return total
