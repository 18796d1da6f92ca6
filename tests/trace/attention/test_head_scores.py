"""What a head does: heads that are made to do one thing are named by it, however the rows are fetched."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from miniinfer.engine.engine import Engine
from miniinfer.errors import BadInputError
from miniinfer.trace.attention.head_kinds import (
    KINDS,
    LOCAL,
    MIXED,
    THRESHOLDS,
    HeadScores,
    Occurrences,
    row_scores,
    scores_of,
)
from miniinfer.trace.attention.head_scores import (
    MOST_ROWS,
    PROBE_TOKENS,
    HeadScoreBook,
    probe_ids,
    probe_scores,
    sampled_positions,
)
from tests.trace.files.recorded import make_run
from tests.trace.live import finished_run

REPEATED = [*range(20)] * 2


def made_head(kind: str, ids: list[int], strength: float) -> np.ndarray:
    """A pattern [n, n] that puts `strength` where the kind looks, where there is such a place, the rest evenly."""
    n = len(ids)
    rows = np.zeros((n, n), np.float32)
    for i in range(n):
        targets = {
            "first token": [0], "previous token": [i - 1], "itself": [i], "local": range(i - LOCAL + 1, i + 1),
            "same token": [j for j in range(i) if ids[j] == ids[i]],
            "induction": [j + 1 for j in range(i - 1) if ids[j] == ids[i]],
        }[kind]
        targets = [t for t in targets if t >= 0]
        left = 1.0
        for target in targets:
            rows[i, target] += strength / len(targets)
            left = 1 - strength
        rows[i, : i + 1] += left / (i + 1)
    return rows


def scored(patterns: list[np.ndarray], ids: list[int]) -> HeadScores:
    rows = np.stack(patterns)[:, :, :]
    return scores_of(row_scores(rows, 0, Occurrences(ids))[:, None])


def test_a_head_that_does_one_thing_is_named_by_it() -> None:
    found = scored([made_head(kind, REPEATED, 0.9) for kind in KINDS], REPEATED)
    assert [found.kind_of(0, head) for head in range(len(KINDS))] == list(KINDS)
    for head, kind in enumerate(KINDS):
        assert found.scores[kind][0, head] >= 0.9


def test_a_head_that_does_nothing_special_is_mixed() -> None:
    even = made_head("itself", REPEATED, 0.0)
    assert scored([even], REPEATED).kind_of(0, 0) == MIXED


def test_the_threshold_is_where_it_is_said_to_be() -> None:
    kind = "previous token"
    ids = list(range(400))  # long, so that what lies evenly on all positions is little
    low, high = (made_head(kind, ids, THRESHOLDS[kind] + d) for d in (-0.05, 0.02))
    found = scored([low, high], ids)
    assert [found.kind_of(0, 0), found.kind_of(0, 1)] == [MIXED, kind]


def test_a_text_that_does_not_repeat_says_nothing_of_induction() -> None:
    ids = list(range(30))
    found = scored([made_head("itself", ids, 0.9)], ids)
    assert found.rows["induction"] == found.rows["same token"] == 0
    assert np.isnan(found.scores["induction"]).all()
    assert found.rows["previous token"] == 29
    assert found.rows["local"] == 30 - 2 * LOCAL + 1


def test_a_text_that_repeats_only_here_and_there_names_no_head_by_that() -> None:
    ids = [*range(20), 3, 7, 11]  # three repeated tokens: in a sentence these are commas and articles
    found = scored([made_head("same token", ids, 0.9)], ids)
    assert found.rows["same token"] == 3
    assert np.isnan(found.scores["same token"]).all()
    assert found.kind_of(0, 0) == MIXED


def test_scores_are_the_means_of_the_runs_own_rows_however_they_are_fetched() -> None:
    run = finished_run(prompt=[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4])
    length = run.seq.num_computed_tokens
    at_once = HeadScoreBook(run).scores(length)
    growing = HeadScoreBook(run)
    for n in range(1, length + 1):
        grown = growing.scores(n)
    for kind in KINDS:
        np.testing.assert_allclose(grown.scores[kind], at_once.scores[kind], atol=1e-6)
    layer, head = 1, 6
    rows = [run.exact_row(layer, head, p) for p in range(length)]
    assert at_once.scores["previous token"][layer, head] == pytest.approx(
        np.mean([rows[p][p - 1] for p in range(1, length)]), abs=1e-6
    )
    assert at_once.scores["first token"][layer, head] == pytest.approx(
        np.mean([row[0] for row in rows[1:]]), abs=1e-6
    )


def test_a_recorded_run_gives_them_from_its_8_bits() -> None:
    run = make_run(prompt=12, decoded=4)
    found = HeadScoreBook(run).scores(16)
    first = np.mean([(run.pattern[p][1, 2, 0] / 255) ** 2 for p in range(1, 16)])
    assert found.scores["first token"][1, 2] == pytest.approx(first, abs=1e-5)


@pytest.mark.parametrize("length", [1, 31, 32, 256, 257, 500, 2000, 8192])
def test_long_runs_are_sampled_evenly_and_never_above_the_limit(length: int) -> None:
    positions = sampled_positions(length)
    assert len(positions) <= MOST_ROWS
    assert len(positions) >= min(length, MOST_ROWS // 2 - 32)
    assert positions[0] == 0
    assert positions == sorted(set(positions))
    if length <= MOST_ROWS:
        assert positions == list(range(length))
    else:
        assert length - positions[-1] <= length // 3 + 64


def test_the_probe_repeats_and_holds_no_control_token() -> None:
    ids = probe_ids(670, lambda i: i % 16 == 8)
    assert ids[:PROBE_TOKENS] == ids[PROBE_TOKENS:]
    assert len(set(ids)) == PROBE_TOKENS
    assert not any(i % 16 == 8 for i in ids)
    assert max(ids) > 600 > 60 > min(ids)
    with pytest.raises(BadInputError, match="too small"):
        probe_ids(39, lambda i: False)


def test_the_probe_runs_beside_the_run_and_leaves_nothing_behind() -> None:
    run = finished_run()
    before = (run.engine.pool.num_used, list(run.engine.sequences))
    ids = probe_ids(67, lambda i: i == 66)
    found = probe_scores(run.engine, ids)
    assert found.rows["induction"] == PROBE_TOKENS
    assert found.rows["previous token"] == 2 * PROBE_TOKENS - 1
    assert (run.engine.pool.num_used, list(run.engine.sequences)) == before
    run.engine.check()


def test_the_real_model_has_the_heads_that_models_are_known_for(model) -> None:
    engine = Engine(model)
    ids = probe_ids(model.config.vocab_size, model.tokenizer.is_special)
    found = probe_scores(engine, ids)
    names = Counter(found.kind_of(layer, head) for layer in range(30) for head in range(9))
    assert found.kind_of(16, 0) == found.kind_of(11, 1) == "previous token"
    assert found.kind_of(18, 6) == found.kind_of(17, 4) == "induction"
    assert found.kind_of(14, 3) == "same token"
    assert names["first token"] > 60
