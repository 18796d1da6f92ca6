"""Colours of plotly figures: one accent for one idea, the same as in the workspace's panels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """probability: what a token has. before: the same one stage earlier. step: the coin, the token of this step.

    on_shades: text on those. cut: what fell. branch: what the user forced or changed. kv: the KV cache. series: for
    lines that have to be told apart, also with one kind of cone missing (tests/figures/test_palette.py). attention:
    scale of weights from 0 up. signed: scale from negative to positive.
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
    text="#1b1f27", quiet="#5a6270", grid="#e3e6ea", probability="#c38323", shades=("#c38323", "#e0a94a"),
    on_shades="#1b1f27", cut="#8c939b", step="#1a5fd0", branch="#8145af", kv="#078985",
    series=("#8a5a00", "#276adb", "#084d50", "#cb3b5e", "#5456a9", "#6c7483"),
    attention=("#ffffff", "#8fbdf2", "#2f74d8", "#0c2f73"),
    signed=("#7a4300", "#d9a441", "#f7f5ef", "#5fb8b0", "#053f3b"),
)  # fmt: skip
DARK = Palette(
    text="#e7eaf0", quiet="#a3abb8", grid="#2c323b", probability="#e8a62c", shades=("#e8a62c", "#c08a22"),
    on_shades="#14171c", cut="#666e7a", step="#6aa6ff", branch="#b78cda", kv="#30cabc",
    series=("#e6b45a", "#7ea7fd", "#70e0c8", "#ec7ecc", "#b1bfff", "#868f96"),
    attention=("#14171c", "#1d4b8f", "#4a8ff0", "#dcebff"),
    signed=("#ffd28a", "#a36a12", "#1d2128", "#1d8f86", "#b5fff6"),
)  # fmt: skip


def palette(dark: bool) -> Palette:
    return DARK if dark else LIGHT
