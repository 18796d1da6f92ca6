"""A saved run for the tests: a prompt of three tokens, prefilled in one pass, then decoded; one token was forced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from miniinfer.config import SamplingParams
from miniinfer.store.saved_run import SavedModel, SavedRun, SavedStep


def saved(run_id: str = "r1", session: str = "s1", **changes: Any) -> SavedRun:
    steps = (
        SavedStep(3, 12.5, {"qkv_proj": 4.0}, 7, False, -0.5, 0.25, 0),
        SavedStep(1, 8.0, {"qkv_proj": 3.0}, 9, True, -2.0, 0.5, 1, 0.75),
    )
    run = SavedRun(
        session, run_id, "Hi <b>there</b>", "Hi there\n\u202e", (1, 2, 3), False, True, 16,
        SavedModel("SmolLM2", None, "cpu", "float32", 98_362_432),
        (SamplingParams(), SamplingParams(temperature=0, seed=2**64 - 1, stop=("é",))), steps, None, 2, 1000.0,
    )
    return replace(run, **changes)
