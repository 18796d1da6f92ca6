"""Colours that mean something can be told apart, and scales keep their order, with each kind of cone missing too."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from miniinfer.figures.palette import DARK, LIGHT, Palette

THEME = (Path(__file__).parents[2] / "miniinfer/ui/components/shared/theme.js").read_text("utf-8")

# What a colour becomes on its way to the eye, in linear sRGB (Machado, Oliveira and Fernandes 2009, full severity).
SEEN = {
    "all cones": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip
_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
_LAB = np.array([
    [0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
])  # fmt: skip
GROUND = {"light": "#ffffff", "dark": "#14171c"}
JUST_SEEN = 0.02  # of OKLab's distance, side by side; a legend and its line stand apart, so much more is asked for


def oklab(colour: str, seen: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return _LAB @ np.cbrt(_LMS @ np.clip(SEEN[seen] @ linear, 0, 1))


def distance(one: str, other: str, seen: str) -> float:
    return float(np.linalg.norm(oklab(one, seen) - oklab(other, seen)))


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    lights = []
    for colour in (one, other):
        channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        lights.append(float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(lights) / min(lights)


def closest(colours: list[str], seen: str) -> float:
    return min(distance(*pair, seen) for pair in combinations(colours, 2))


def accents(mode: str) -> dict[str, str]:
    """The accents that the components in the browser use."""
    block = re.search(rf"const ACCENTS = {{.*?{mode}: {{(.*?)}}", THEME, re.DOTALL)
    assert block is not None
    return dict(re.findall(r'(\w+): "(#\w{6})"', block[1]))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_of_different_meaning_differ(palette: Palette, seen: str) -> None:
    assert closest(list(palette.series), seen) > 3.5 * JUST_SEEN
    ideas = [palette.probability, palette.step, palette.branch, palette.kv, palette.cut]
    assert closest(ideas, seen) > 2.5 * JUST_SEEN
    assert distance(palette.signed[1], palette.signed[3], seen) > 3.5 * JUST_SEEN, "the same size, the other sign"


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_scales_keep_their_order(palette: Palette, seen: str) -> None:
    attention = [oklab(colour, seen)[0] for colour in palette.attention]
    away_from_zero = np.sign(attention[-1] - attention[0])
    assert all(away_from_zero * (b - a) > 0.1 for a, b in pairwise(attention))
    signed = [oklab(colour, seen)[0] for colour in palette.signed]
    for half in (signed[2::-1], signed[2:]):
        assert all(np.sign(half[-1] - half[0]) * (b - a) > 0.1 for a, b in pairwise(half))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_scales_of_the_components_keep_their_order(mode: str, seen: str) -> None:
    block = re.search(rf"const RAMPS = {{.*?{mode}: {{(.*?)\n  }}", THEME, re.DOTALL)
    assert block is not None
    ramps = {name: re.findall(r"#\w{6}", stops) for name, stops in re.findall(r"(\w+): \[(.*?)\]", block[1])}
    assert set(ramps) == {"attention", "kv", "prob"}
    for stops in ramps.values():
        levels = [oklab(colour, seen)[0] for colour in stops]
        assert all(np.sign(levels[-1] - levels[0]) * (b - a) > 0.1 for a, b in pairwise(levels))


@pytest.mark.parametrize(("mode", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_one_idea_has_one_colour_on_every_page(mode: str, palette: Palette) -> None:
    found = accents(mode)
    names = {"blue": palette.step, "violet": palette.branch, "teal": palette.kv, "amber": palette.probability}
    assert {name: found[name] for name in names} == names
    assert [found[f"f{i}"] for i in range(1, 6)] == list(palette.series[:5])


@pytest.mark.parametrize(("mode", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_marks_and_words_stand_out_from_the_ground(mode: str, palette: Palette) -> None:
    ideas = (palette.probability, palette.step, palette.branch, palette.kv, palette.cut)
    marks = {*palette.series, *ideas, *accents(mode).values()}
    assert {mark: contrast(mark, GROUND[mode]) for mark in marks if contrast(mark, GROUND[mode]) < 3} == {}
    assert min(contrast(text, GROUND[mode]) for text in (palette.text, palette.quiet)) > 4.5
    assert min(contrast(palette.on_shades, shade) for shade in palette.shades) > 4.5
