"""Who attends together, who sees what, and which key/value head a query head reads."""

from __future__ import annotations

import itertools

import pytest
import torch

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.groups import GROUP_COST, cheapest_cuts, make_groups, one_group_each
from miniinfer.engine.scheduler import Scheduled
from miniinfer.engine.sequence import Sequence
from tests.engine.helpers import SMALL, shared_tiny

CPU = torch.device("cpu")


def entries(*shares: tuple[int, int]) -> list[Scheduled]:
    """(num_tokens, start) of each sequence."""
    return [Scheduled(Sequence(f"s{i}", [0] * 99, 9, SamplingParams()), *share) for i, share in enumerate(shares)]


def shape(groups) -> list[tuple[int, int, int, int, int]]:
    return [(g.first_seq, g.num_seqs, g.first_row, g.num_rows, g.context_len) for g in groups]


def test_leading_single_rows_form_one_group() -> None:
    """A chunk that the budget cut down to one row may stand behind longer ones: it is a group of its own."""
    step = entries((1, 4), (1, 9), (5, 0), (1, 2))
    assert shape(make_groups(step, CPU)) == [(0, 2, 0, 1, 10), (2, 1, 2, 5, 5), (3, 1, 7, 1, 3)]
    assert shape(one_group_each(step, CPU)) == [(0, 1, 0, 1, 5), (1, 1, 1, 1, 10), (2, 1, 2, 5, 5), (3, 1, 7, 1, 3)]
    assert shape(make_groups(entries((7, 0)), CPU)) == [(0, 1, 0, 7, 7)]


def test_unlike_lengths_are_cut_where_padding_costs_more_than_a_group() -> None:
    assert cheapest_cuts([]) == []
    assert cheapest_cuts([900]) == [1]
    assert cheapest_cuts([100] * 8) == [8]
    assert cheapest_cuts([10, 250, 20, 240]) == [4], "another group would cost more than it saves"
    assert cheapest_cuts([1000, 990, 30, 20, 10]) == [2, 3]
    assert cheapest_cuts([20, 1000, 20]) == [1, 1, 1], "only neighbours can share a group"
    lens = [700, 90, 1200, 1100, 40, 41, 42, 600]

    def cost(sizes: tuple[int, ...]) -> int:
        ends = list(itertools.accumulate(sizes))
        return sum(
            size * max(lens[end - size : end]) + GROUP_COST for size, end in zip(sizes, ends, strict=True)
        )

    def ways(n: int) -> list[tuple[int, ...]]:
        return [()] if n == 0 else [(*rest, size) for size in range(1, n + 1) for rest in ways(n - size)]

    assert cost(tuple(cheapest_cuts(lens))) == min(map(cost, ways(len(lens))))
    assert shape(make_groups(entries((1, 999), (1, 989), (1, 29), (1, 19), (4, 0)), CPU)) == [
        (0, 2, 0, 1, 1000), (2, 2, 2, 1, 30), (4, 1, 4, 4, 4),
    ]  # fmt: skip


def test_a_row_sees_the_positions_up_to_its_own() -> None:
    [chunk] = make_groups(entries((3, 2)), CPU)
    assert chunk.hidden.shape == (1, 1, 3, 5)
    assert (~chunk.hidden[0, 0]).sum(1).tolist() == [3, 4, 5]
    [decodes] = make_groups(entries((1, 0), (1, 3), (1, 1)), CPU)
    assert decodes.hidden.shape == (3, 1, 1, 4)
    assert (~decodes.hidden[:, 0, 0]).int().tolist() == [[1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]]


def test_no_mask_where_every_row_sees_all() -> None:
    for step in (entries((1, 5)), entries((1, 5), (1, 5)), entries((1, 0))):
        [group] = make_groups(step, CPU)
        assert group.hidden is None


@pytest.mark.parametrize("shares", [((1, 4), (1, 9)), ((1, 4), (5, 0)), ((6, 3),), ((1, 0), (1, 0), (4, 2), (1, 7))])
def test_no_row_is_without_a_key(shares) -> None:
    """KV-04: a softmax over nothing would be NaN."""
    for group in make_groups(entries(*shares), CPU):
        if group.hidden is not None:
            assert (~group.hidden).any(-1).all()


def test_splitting_and_joining_heads_are_inverse() -> None:
    q = torch.randn(13, 10, 8)
    for group in make_groups(entries((1, 4), (1, 9), (1, 1), (10, 0)), CPU):
        split = group.split_queries(q, 2)
        rows = slice(group.first_row, group.first_row + group.num_seqs * group.num_rows)
        assert torch.equal(group.join_heads(split, 2), q[rows])
        heads = group.split_heads(split, 2)  # [K, S, G, Tq, D]
        assert torch.equal(heads[1, 0, 3, -1], q[group.first_row + group.num_rows - 1, 1 * 5 + 3])


def test_query_head_h_reads_key_value_head_h_over_g() -> None:
    """KV-07: with values that are constant in each head, every query head's mix is the constant of its own K/V head."""
    engine = Engine(shared_tiny(), SMALL)
    engine.add_request([3, 4, 5, 6, 7], SamplingParams(temperature=0, max_new_tokens=4))
    constants = torch.tensor([10.0, 20.0])

    def pretend(stage, state) -> None:
        if stage.name == "qkv_proj":
            state.v = constants[None, :, None].expand_as(state.v)
        if stage.name == "attn_mix":
            expected = constants.repeat_interleave(5)[None, :, None].expand_as(state.z)
            torch.testing.assert_close(state.z, expected)

    while engine.step(pretend):
        pass
