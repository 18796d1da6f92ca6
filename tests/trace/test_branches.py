"""Typed continuations, the tree of runs, new seeds, guesses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import coin
from miniinfer.errors import BadInputError
from miniinfer.trace.continuation import force_tokens
from miniinfer.trace.parts import finished
from miniinfer.trace.run import ChangeParams, ForceToken
from miniinfer.trace.sampling.prediction import Guess, score
from miniinfer.trace.sampling.sampling import sampling_of
from miniinfer.trace.tree import KVShare, Sharer, tree_of
from tests.trace.live import PROMPT, finished_run, live_run


def test_a_continuation_forces_several_tokens_and_leaves_the_trunk_as_it_was() -> None:
    run = finished_run()
    before = list(run.seq.token_ids)
    branch = finished(force_tokens(run, 3, [7, 8, 9], "r2", "typed"))
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
    branch = finished(force_tokens(run, 2, [11], "r2", "typed"))
    assert branch.steps[-1].token_id == 11
    with pytest.raises(BadInputError, match="empty"):
        finished(force_tokens(run, 2, [], "r3", "typed"))


def test_a_continuation_that_fails_leaves_nothing_behind() -> None:
    run = finished_run()
    used = run.engine.pool.num_used
    with pytest.raises(BadInputError, match="Token ids of this model"):
        finished(force_tokens(run, 3, [7, 8, 999], "r2", "typed"))
    assert list(run.engine.sequences.values()) == [run.seq]
    assert run.engine.pool.num_used == used
    run.engine.check()


def test_a_continuation_ends_where_the_run_ends() -> None:
    run = finished_run()
    branch = finished(force_tokens(run, 12, [5, 6, 7], "r2", "typed"))  # the twelfth token is the last that fits
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
    assert (root.edge, root.output, root.first_difference) == (None, None, None)
    place = sampling_of(
        run.logits_at(len(PROMPT) + 4), run.info.params, run.seq.token_ids[:7], run.seq.token_ids[7:12]
    )
    assert first.edge is not None
    assert first.instead is not None
    assert (first.edge.token.token_id, first.instead.token.token_id) == (other, run.steps[5].token_id)
    assert first.edge.raw_prob == pytest.approx(float(place.raw.probs[other]))
    assert first.edge.used_prob == pytest.approx(float(place.used.probs[other]))
    assert first.instead.raw_prob == pytest.approx(float(place.raw.probs[run.steps[5].token_id]))
    assert (first.forced, first.output, first.first_difference) == (True, 5, 5)
    assert (second.forced, second.output) == (False, 5)


def test_shared_kv_bytes_are_those_of_the_positions_and_those_of_the_blocks() -> None:
    """Blocks of 4 positions, prompt of 7: step 4 leaves at position 10, so 2 blocks are full and the third is not."""
    run = finished_run()
    cache = run.engine.kv_cache
    branch = run.fork(ForceToken(4, 11), "r2", "b")
    assert run.steps[3].context_len == 10
    root, node = tree_of([run, branch])
    assert node.kv == KVShare(
        10, 10 * cache.position_bytes, 3 * cache.block_bytes, 10, 10, 10 * cache.position_bytes, 3 * cache.block_bytes
    )
    assert root.kv is not None
    assert (root.kv.positions, root.kv.taken_over, root.kv.shared_positions) == (18, 0, None)
    assert root.sharers == (Sharer("r2", 10, 10 * cache.position_bytes, 3 * cache.block_bytes),)
    branch.step()  # writes position 10 into the third block, which is copied first
    root, node = tree_of([run, branch])
    assert node.kv == KVShare(
        11, 11 * cache.position_bytes, 3 * cache.block_bytes, 10, 8, 8 * cache.position_bytes, 2 * cache.block_bytes
    )
    twig = branch.fork(ForceToken(2, 12), "r3", "t")  # leaves at position 8: two full blocks of the root
    root, node, last = tree_of([run, branch, twig])
    assert [(s.run_id, s.positions) for s in root.sharers] == [("r2", 8), ("r3", 8)]
    assert [(s.run_id, s.positions) for s in node.sharers] == [("r3", 8)]
    assert last.sharers == ()
    held = {block for r in (run, branch, twig) for block in r.seq.block_table}
    assert run.engine.pool.num_used == len(held), "what is shared stands in memory once"


def test_the_branch_that_left_last_stands_nearest_to_its_trunk() -> None:
    run = finished_run()
    branches = [run.fork(ForceToken(step, 11), f"r{n}", "b") for n, step in ((2, 3), (3, 8), (4, 5))]
    assert [n.run.info.run_id for n in tree_of([run, *branches])] == ["r1", "r3", "r4", "r2"]


def test_a_branch_whose_trunk_is_gone_is_a_root_that_shares_with_nobody() -> None:
    run = finished_run()
    branch = run.fork(ForceToken(6, 11), "r2", "b")
    run.release()
    (node,) = tree_of([branch])
    assert (node.depth, node.output, node.instead, node.first_difference) == (0, 5, None, None)
    assert node.edge is not None
    assert node.kv is not None
    assert (node.kv.taken_over, node.kv.shared_positions) == (12, None)


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
