"""Sampler settings named for what they do. What a preset does not name is off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from miniinfer.trace.sampling.sampling import ORDERS


@dataclass(frozen=True)
class Preset:
    title: str
    settings: dict[str, Any] = field(default_factory=dict)


PRESETS = (
    Preset("Always the likeliest token", {"temperature": 0.0}),
    Preset("Close to the likeliest", {"temperature": 0.3, "top_p": 0.9}),
    Preset("The app's own start", {"temperature": 0.8, "top_p": 0.95}),
    Preset("The model as it is, nothing cut", {"temperature": 1.0}),
    Preset("Anything among the best five", {"temperature": 1.5, "top_k": 5}),
    Preset("Bold, but no rare tokens", {"temperature": 1.5, "min_p": 0.1}),
    Preset("Bold, rare tokens cut before", {"temperature": 1.5, "top_p": 0.9, "order": tuple(ORDERS.values())[1]}),
    Preset("Nearly at random", {"temperature": 2.0}),
    Preset("Seldom the same word twice", {"temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.3}),
    Preset("Less of what it said often", {"temperature": 0.8, "top_p": 0.95, "frequency_penalty": 0.7}),
)
