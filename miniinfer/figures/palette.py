"""Colours of plotly figures: one accent for one idea, the same as in the workspace's panels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """probability: what a token has. before: the same one stage earlier. step: the coin, the token of this step.

    on_shades: text on those. cut: what fell. branch: what the user forced or changed. kv: the KV cache. series: for
    lines that have to be told apart.
    """

    text: str
    quiet: str
    grid: str
    probability: str
    shades: tuple[str, str]  # neighbours on the cumulative bar
    on_shades: str
    cut: str
    step: str
    branch: str
    kv: str
    series: tuple[str, ...]


LIGHT = Palette(
    text="#1b1f27", quiet="#5a6270", grid="#e3e6ea", probability="#e3a008", shades=("#e3a008", "#f2c14e"),
    on_shades="#1b1f27", cut="#b9bfc8", step="#1a5fd0", branch="#7b3fc9", kv="#0f857d",
    series=("#8a5a00", "#2563c9", "#0b7a72", "#a2376b", "#5b5fc7", "#6b7280"),
)  # fmt: skip
DARK = Palette(
    text="#e7eaf0", quiet="#a3abb8", grid="#2c323b", probability="#e8a62c", shades=("#e8a62c", "#c08a22"),
    on_shades="#14171c", cut="#4b525d", step="#6aa6ff", branch="#bd95ff", kv="#3cc4b9",
    series=("#e6b45c", "#7fb0ff", "#4fd0c5", "#f08fb8", "#a9acff", "#9aa3b0"),
)  # fmt: skip


def palette(dark: bool) -> Palette:
    return DARK if dark else LIGHT
