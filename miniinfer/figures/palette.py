"""Colours of plotly figures: one accent for one idea, the same as in the workspace's panels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """probability: what a token has. before: the same one stage earlier. step: the coin, the token of this step.

    on_shades: text on those. cut: what fell. branch: what the user forced or changed. kv: the KV cache. series: for
    lines that have to be told apart. attention: scale of weights from 0 up. signed: scale from negative to positive.
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
    attention: tuple[str, ...]
    signed: tuple[str, ...]


LIGHT = Palette(
    text="#1b1f27", quiet="#5a6270", grid="#e3e6ea", probability="#e3a008", shades=("#e3a008", "#f2c14e"),
    on_shades="#1b1f27", cut="#b9bfc8", step="#1a5fd0", branch="#7b3fc9", kv="#0f857d",
    series=("#8a5a00", "#2563c9", "#0b7a72", "#a2376b", "#5b5fc7", "#6b7280"),
    attention=("#ffffff", "#8fbdf2", "#2f74d8", "#0c2f73"),
    signed=("#7a4300", "#d9a441", "#f7f5ef", "#5fb8b0", "#053f3b"),
)  # fmt: skip
DARK = Palette(
    text="#e7eaf0", quiet="#a3abb8", grid="#2c323b", probability="#e8a62c", shades=("#e8a62c", "#c08a22"),
    on_shades="#14171c", cut="#4b525d", step="#6aa6ff", branch="#bd95ff", kv="#3cc4b9",
    series=("#e6b45c", "#7fb0ff", "#4fd0c5", "#f08fb8", "#a9acff", "#9aa3b0"),
    attention=("#14171c", "#1d4b8f", "#4a8ff0", "#dcebff"),
    signed=("#ffd28a", "#a36a12", "#1d2128", "#1d8f86", "#b5fff6"),
)  # fmt: skip


def palette(dark: bool) -> Palette:
    return DARK if dark else LIGHT
