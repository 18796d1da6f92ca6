"""What moved between two distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from miniinfer.trace.shift import Shift, moved_by_rows, shift_of


def test_by_hand() -> None:
    shift = shift_of(torch.tensor([0.0, math.log(3), -math.inf]), torch.tensor([0.0, 0.0, math.log(2)]))
    np.testing.assert_allclose(shift.before, [0.25, 0.75, 0], atol=1e-6)
    np.testing.assert_allclose(shift.after, [0.25, 0.25, 0.5], atol=1e-6)
    assert shift.moved == pytest.approx(0.5, abs=1e-6)
    assert shift.divergence == pytest.approx(0.75 * math.log(3), abs=1e-5)
    assert shift.movers(2) in ([1, 2], [2, 1])
    assert (shift.rank(1), shift.rank(1, after=True), shift.rank(2), shift.rank(2, after=True)) == (1, 3, 3, 1)
    assert Shift(np.float32([1, 0]), np.float32([0, 1])).divergence == math.inf


def test_leaders_are_the_best_before_and_the_largest_movers() -> None:
    before = np.zeros(50, np.float32)
    before[:10] = np.linspace(0.19, 0.01, 10)
    after = before.copy()
    after[0], after[40] = 0.0, 0.19
    shift = Shift(before, after)
    found = shift.leaders(6)
    assert len(found) == 6
    assert {0, 1, 2, 40} <= set(found)
    assert found == sorted(found, key=lambda i: (-before[i], i))
    assert Shift(before, before).leaders(6) == [0, 1, 2, 3, 4, 5], "nothing moved, so none is shown for having moved"


def test_rows_give_what_single_shifts_give() -> None:
    generator = torch.Generator().manual_seed(1)
    before, rows = torch.randn(30, generator=generator), torch.randn(4, 30, generator=generator)
    moved, best = moved_by_rows(before, rows)
    for i, row in enumerate(rows):
        assert moved[i] == pytest.approx(shift_of(before, row).moved, abs=1e-6)
        assert best[i] == int(row.argmax())
