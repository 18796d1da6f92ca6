"""Typed continuations, the tree of runs, new seeds, guesses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import coin
from miniinfer.errors import BadInputError
from miniinfer.trace.continuation import force_tokens
from miniinfer.trace.prediction import Guess, score
from miniinfer.trace.run import ChangeParams, ForceToken
from miniinfer.trace.sampling import sampling_of
from miniinfer.trace.tree import tree_of
from tests.trace.live import PROMPT, finished_run, live_run


def test_a_continuation_forces_several_tokens_and_leaves_the_trunk_as_it_was() -> None:
    run = finished_run()
    before = list(run.seq.token_ids)
    branch = force_tokens(run, 3, [7, 8, 9], "r2", "typed")
    assert branch.seq.token_ids == [*before[: len(PROMPT) + 2], 7, 8, 9]
    assert [m.forced for m in branch.steps] == [False, False, True, True, True]
    assert (branch.info.run_id, branch.info.parent, branch.info.edit) == ("r2", "r1", ForceToken(3, 7))
    assert list(run.engine.sequences.values()) == [run.seq, branch.seq], "those in between are released"
    while branch.step():
        pass
    assert run.seq.token_ids == before
    assert [m.coin for m in branch.steps] == [m.coin for m in run.steps]
    again = live_run(prompt=branch.seq.token_ids[: len(PROMPT) + 5])
    again.step()
    np.testing.assert_allclose(branch.logits_at(len(PROMPT) + 4), again.logits_at(len(PROMPT) + 4), atol=1e-4)
    run.engine.check()
    branch.release()
    run.release()
    assert run.engine.pool.num_used == 0


def test_a_continuation_of_one_token_is_a_forced_token_and_of_none_is_refused() -> None:
    run = finished_run()
    branch = force_tokens(run, 2, [11], "r2", "typed")
    assert branch.steps[-1].token_id == 11
    with pytest.raises(BadInputError, match="empty"):
        force_tokens(run, 2, [], "r3", "typed")


def test_a_continuation_that_fails_leaves_nothing_behind() -> None:
    run = finished_run()
    used = run.engine.pool.num_used
    with pytest.raises(BadInputError, match="Token ids of this model"):
        force_tokens(run, 3, [7, 8, 999], "r2", "typed")
    assert list(run.engine.sequences.values()) == [run.seq]
    assert run.engine.pool.num_used == used
    run.engine.check()


def test_a_continuation_ends_where_the_run_ends() -> None:
    run = finished_run()
    branch = force_tokens(run, 12, [5, 6, 7], "r2", "typed")  # the twelfth token is the last that fits
    assert branch.seq.output_ids[-1] == 5
    assert branch.finish_reason == "length"
    assert branch.info.run_id == "r2"
    run.engine.check()


def test_another_seed_tosses_its_own_coins_from_the_branch_on() -> None:
    run = finished_run()
    params = SamplingParams(temperature=1.2, top_p=0.9, max_new_tokens=12, seed=77)
    branch = run.fork(ChangeParams(4, params), "r2", "seed 77")
    while branch.step():
        pass
    assert [m.coin for m in branch.steps] == [*(coin(3, i) for i in range(3)), *(coin(77, i) for i in range(3, 12))]
    shown = branch.next_token(4)
    assert shown is not None
    assert shown.coin == coin(77, 3)
    assert (branch.params_of(3).seed, branch.params_of(4).seed) == (3, 77)


def test_the_tree_has_probabilities_on_its_edges_and_shared_bytes() -> None:
    run = finished_run()
    other = next(i for i in range(67) if i != run.steps[5].token_id)
    branch = run.fork(ForceToken(6, other), "r2", "b")
    twig = branch.fork(ChangeParams(6, SamplingParams(temperature=0, max_new_tokens=12)), "r3", "c")
    lone = finished_run()
    lone.info = type(lone.info)(**lone.info.__dict__ | {"run_id": "r9"})
    nodes = tree_of([run, lone, branch, twig])
    assert [(n.run.info.run_id, n.depth) for n in nodes] == [("r1", 0), ("r2", 1), ("r3", 2), ("r9", 0)]
    root, first, second, _ = nodes
    assert (root.token, root.shared_bytes, root.first_difference) == (None, None, None)
    place = sampling_of(
        run.logits_at(len(PROMPT) + 4), run.info.params, run.seq.token_ids[:7], run.seq.token_ids[7:12]
    )
    assert first.raw_prob == pytest.approx(float(place.raw.probs[other]))
    assert first.used_prob == pytest.approx(float(place.used.probs[other]))
    assert (first.forced, first.first_difference) == (True, 5)
    assert second.forced is False
    block = run.engine.kv_cache.block_bytes
    assert first.kv_bytes == first.shared_bytes == len(branch.seq.block_table) * block
    branch.step()  # writes into the last shared block, which is copied first
    first = tree_of([run, branch])[1]
    assert first.shared_bytes == first.kv_bytes - block


def test_scores_come_from_the_distribution() -> None:
    sampling = sampling_of(
        torch.log(torch.tensor([0.1, 0.4, 0.3, 0.2])), SamplingParams(temperature=1.0, top_p=1.0, top_k=2), coin=0.9
    )
    assert sampling.token_id == 2
    best, hit, cut = score([Guess("a", (1,)), Guess("b", (1, 2)), Guess("c", (0, 3))], sampling, 2)
    assert (best.rank, best.survived, best.hit) == (1, True, False)
    assert best.raw_prob == pytest.approx(0.4)
    assert (hit.token_id, hit.rank, hit.hit) == (2, 2, True)
    assert (cut.token_id, cut.survived, cut.used_prob) == (3, False, 0)
    assert cut.surprise == pytest.approx(-np.log(0.2), abs=1e-5)
