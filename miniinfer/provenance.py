"""Where a number comes from: the one type behind every source mark on screen."""

from __future__ import annotations

from enum import StrEnum


class Provenance(StrEnum):
    """measured: read from a clock or an allocator during this run. computed: follows exactly from the run's own tensors
    or the model's config. estimated: a model of something not measured. recorded: measured or computed in an earlier
    run and read from a file."""

    MEASURED = "measured"
    COMPUTED = "computed"
    ESTIMATED = "estimated"
    RECORDED = "recorded"
