"""Sixteen requests have sixteen colours that are told apart, with colour-blind eyes too."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "miniinfer" / "ui" / "components" / "batching" / "colours.js"
# What an eye without one kind of cone sees, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
])  # fmt: skip
TO_LAB = np.array([
    [0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
])  # fmt: skip
LEAST = 0.07  # OKLab; about 0.02 is just seen


def colours(theme: str) -> list[str]:
    text = SCRIPT.read_text("utf-8")
    found = re.search(rf"{theme}: \[(.*?)\]", text, re.DOTALL)
    assert found is not None
    return re.findall(r"#[0-9a-f]{6}", found[1])


def oklab(colour: str, eye: np.ndarray) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(TO_LAB @ np.cbrt(TO_LMS @ np.clip(eye @ linear, 0, 1)))


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_owners_are_told_apart(theme: str, eye: str) -> None:
    found = colours(theme)
    assert len(found) == 16
    seen = [oklab(colour, EYES[eye]) for colour in found]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > LEAST
