"""One head looked into: each number equals the step's own tensor; windows and pools agree with the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from miniinfer.errors import BadInputError
from miniinfer.trace.attention.one_head import MAP_NAMES, head_maps, head_row, pooled_head_maps
from miniinfer.trace.attention.rotation import SHIFTS, rotation_of
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.live_run import LiveRun
from tests.trace.live import PROMPT, finished_run


@pytest.fixture(scope="module")
def run() -> LiveRun:
    return finished_run()


def observed(run: LiveRun, layer: int) -> dict[str, list[torch.Tensor]]:
    """Scores, pattern and z of every step of this layer, as a twin of the run computed them."""
    seen: dict[str, list[torch.Tensor]] = {"attn_scores": [], "attn_pattern": [], "attn_mix": []}

    def watch(stage, state) -> None:
        if stage.layer == layer and stage.name in seen:
            value = state.z if stage.name == "attn_mix" else getattr(state, stage.name)[0][:, 0].flatten(0, 1)
            seen[stage.name].append(value)

    params = run.info.params
    seq = run.engine.add_request(PROMPT, params)
    while not seq.finished:
        run.engine.step(watch, only=seq)
    assert seq.token_ids == run.seq.token_ids
    run.engine.release(seq)
    return seen


@pytest.mark.parametrize("layer", [0, 2])
def test_each_number_of_a_decoded_row_equals_the_engines_tensor(run: LiveRun, layer: int) -> None:
    seen = observed(run, layer)
    for step, (scores, pattern, z) in enumerate(zip(*seen.values(), strict=True)):
        position = len(PROMPT) - 1 + step
        row = head_row(run, layer, 7, position)
        exact = step > 0  # a prompt's rows were computed together, in another order of summation
        for mine, theirs in ((row.scaled, scores[7, -1]), (row.pattern, pattern[7, -1]), (row.z, z[-1, 7])):
            same = np.array_equal(mine, theirs.numpy())
            assert same if exact else np.allclose(mine, theirs.numpy(), atol=1e-5)
        assert np.array_equal(row.pattern, run.exact_row(layer, 7, position)) or not exact


def test_the_row_adds_up(run: LiveRun) -> None:
    row = head_row(run, 1, 4, 12)
    assert len(row.products) == len(row.pattern) == 13
    np.testing.assert_allclose(row.products / 8**0.5, row.scaled, rtol=1e-6)
    np.testing.assert_allclose(row.exps / row.exps.sum(), row.pattern, atol=1e-6)
    np.testing.assert_allclose(row.mixed.sum(0), row.z, atol=1e-5)
    assert row.shares.sum() == pytest.approx(1, abs=1e-5)
    strongest = int(np.abs(row.shares).argmax())
    along = float(row.mixed[strongest] @ row.z) / float(row.z @ row.z)
    assert row.shares[strongest] == pytest.approx(along, rel=1e-5)
    assert row.outputs.shape == (10,)


def test_a_window_is_a_part_of_the_whole(run: LiveRun) -> None:
    length = run.seq.num_computed_tokens
    whole = head_maps(run, 1, 3, 0, length, 0)
    part = head_maps(run, 1, 3, 5, 11, 4)
    for name in MAP_NAMES:
        assert whole.maps[name].shape == (length, length)
        np.testing.assert_allclose(part.maps[name], whole.maps[name][5:11, 4:11], atol=1e-5)
    later = np.triu(np.ones((length, length), bool), 1)
    assert np.isneginf(whole.maps["masked"][later]).all()
    assert not whole.maps["pattern"][later].any()
    assert np.isfinite(whole.maps["scaled"]).all()


@pytest.mark.parametrize("skip_first", [False, True])
@pytest.mark.parametrize("cells", [3, 5, 100])
def test_pooled_maps_hold_the_largest_number_of_each_cell(
    run: LiveRun, cells: int, skip_first: bool, monkeypatch
) -> None:
    monkeypatch.setattr("miniinfer.trace.attention.one_head.BLOCK", 4)
    length = run.seq.num_computed_tokens
    whole = head_maps(run, 2, 8, 0, length, 0)
    pooled = pooled_head_maps(run, 2, 8, length, cells, skip_first=skip_first)
    cell = pooled.cell
    assert len(pooled.maps["pattern"]) <= cells
    for name in MAP_NAMES:
        full = whole.maps[name].copy()
        if skip_first:
            full[:, 0] = 0 if name == "pattern" else -np.inf
        size = -(-length // cell)
        assert pooled.maps[name].shape == (size, size)
        for i in range(size):
            for j in range(size):
                block = full[i * cell : (i + 1) * cell, j * cell : (j + 1) * cell]
                assert pooled.maps[name][i, j] == pytest.approx(block.max(), abs=1e-5)


def test_rotation_is_position_times_frequency_and_the_score_knows_the_distance_only(run: LiveRun) -> None:
    position, key = 14, 6
    found = rotation_of(run, 1, 7, position, key, 40)
    row = head_row(run, 1, 7, position)
    np.testing.assert_allclose(found.frequencies, 1000.0 ** (-np.arange(4) / 4), rtol=1e-6)
    for before, after, at in ((found.q_before, found.q_after, position), (found.k_before, found.k_after, key)):
        for i, frequency in enumerate(found.frequencies):
            angle = at * float(frequency)
            turned = complex(*before[i]) * complex(np.cos(angle), np.sin(angle))
            np.testing.assert_allclose(after[i], [turned.real, turned.imag], atol=1e-5)
    assert found.products.sum() == pytest.approx(row.products[key], rel=1e-5)
    assert found.scores[position - key] == pytest.approx(row.scaled[key], rel=1e-5)
    assert len(found.scores) == 41
    np.testing.assert_allclose(found.shifted, [row.scaled[key]] * len(SHIFTS), atol=2e-4)
    assert np.ptp(found.scores) > 0.1


def test_queries_that_were_dropped_are_a_sentence() -> None:
    dropped = finished_run(budget=TraceBudget(limit_bytes=1))
    with pytest.raises(BadInputError, match="were dropped"):
        head_row(dropped, 0, 0, 3)
