"""Each fault on a tiny random model, against an independent way to make the same mistake: another file, other facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from miniinfer.config import SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.kv_cache import KEYS
from miniinfer.engine.linear import Linear
from miniinfer.engine.lookup import kv_at
from miniinfer.engine.ops import rotate
from miniinfer.faults import norm, positions
from miniinfer.faults.catalogue import find_fault
from miniinfer.faults.experiment import make_engine
from tests.engine.tiny import TINY, tiny_model
from tests.faults.helpers import GREEDY, PLAIN, bits_equal, both, largest, logits, run, with_weights

IDS = [3, 1, 4, 1, 5, 9, 2, 6]
H, K, D, E = TINY.num_heads, TINY.num_kv_heads, TINY.head_dim, TINY.hidden_size
G = H // K


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny():
    return tiny_model()


def broken(model, fault_id: str) -> Engine:
    return make_engine(model, PLAIN, find_fault(fault_id))


def of_qkv(layer, q=lambda x: x, k=lambda x: x):
    """The layer with other rows of q and k; q: [H, D, E], k: [K, D, E]."""
    rows_q, rows_k, rows_v = layer.qkv.to_dense().split((H * D, K * D, K * D))
    parts = (q(rows_q.view(H, D, E)), k(rows_k.view(K, D, E)), rows_v.view(K, D, E))
    return dataclasses.replace(layer, qkv=Linear(torch.cat([part.reshape(-1, E) for part in parts])))


def in_file_order(rows: Tensor) -> Tensor:
    """As llama GGUF files store the rows of a head: 0, D/2, 1, D/2 + 1, ..."""
    order = [half + i for i in range(D // 2) for half in (0, D // 2)]
    return rows[:, order]


def test_rows_in_file_order_equal_a_loader_that_does_not_undo_it(tiny):
    file = with_weights(tiny, lambda layer: of_qkv(layer, in_file_order, in_file_order))
    found, expected = logits(broken(tiny, "qk_rows_in_file_order"), IDS), logits(Engine(file), IDS)
    assert max(map(largest, found, expected)) < 1e-4
    assert max(map(largest, found, logits(Engine(tiny), IDS))) > 0.1


def test_tiled_heads_equal_query_heads_in_the_order_of_a_tiling(tiny):
    """Head k G + g of the other model is head g K + k of this one, with the columns of attn_out that belong to it."""
    order = [g * K + k for k in range(K) for g in range(G)]

    def tiled(layer):
        columns = layer.attn_out.to_dense().view(E, H, D)[:, order].reshape(E, H * D)
        return dataclasses.replace(of_qkv(layer, q=lambda rows: rows[order]), attn_out=Linear(columns))

    found, expected = logits(broken(tiny, "kv_heads_tiled"), IDS), logits(Engine(with_weights(tiny, tiled)), IDS)
    assert max(map(largest, found, expected)) < 1e-4
    assert max(map(largest, found, logits(Engine(tiny), IDS))) > 0.1


@pytest.mark.parametrize("kv_heads", [1, 10])
def test_tiled_heads_change_nothing_with_one_head_or_as_many_as_queries(kv_heads):
    model = tiny_model(config=dataclasses.replace(TINY, num_kv_heads=kv_heads))
    assert bits_equal(logits(broken(model, "kv_heads_tiled"), IDS), logits(Engine(model), IDS))


def test_no_scaling_equals_queries_made_longer(tiny):
    longer = with_weights(tiny, lambda layer: of_qkv(layer, q=lambda rows: rows * D**0.5))
    found, expected = logits(broken(tiny, "no_scaling"), IDS), logits(Engine(longer), IDS)
    assert max(map(largest, found, expected)) < 1e-3
    assert max(map(largest, found, logits(Engine(tiny), IDS))) > 0.1


@pytest.mark.parametrize(
    ("fault_id", "facts"),
    [("wrong_rope_base", {"rope_base": 10_000.0}), ("wrong_norm_eps", {"norm_eps": 1e-6})],
)
def test_a_wrong_fact_equals_a_model_with_that_fact(tiny, fault_id, facts):
    other = dataclasses.replace(tiny, config=dataclasses.replace(tiny.config, **facts))
    found = logits(broken(tiny, fault_id), IDS)
    assert bits_equal(found, logits(Engine(other), IDS))
    assert not bits_equal(found, logits(Engine(tiny), IDS))


def test_a_model_whose_own_value_is_the_common_one_gets_another():
    assert positions.wrong_base(TINY) == 10_000
    assert positions.wrong_base(dataclasses.replace(TINY, rope_base=10_000.0)) == 500_000
    assert norm.wrong_eps(TINY) == 1e-6
    assert norm.wrong_eps(dataclasses.replace(TINY, norm_eps=9.99999997e-07)) == 1e-5
    assert "1,000; the fault takes 10,000" in positions.base_in_words(TINY)
    assert "1e-05; the fault takes 1e-06" in norm.eps_in_words(TINY)


def test_cached_keys_are_those_before_rope(tiny):
    engine, healthy = broken(tiny, "keys_without_rope"), Engine(tiny)
    for each in (engine, healthy):
        run(each, IDS, SamplingParams(max_new_tokens=0))
    (bare, values), (turned, healthy_values) = (
        kv_at(each, next(iter(each.sequences.values())), 0, 0, len(IDS)) for each in (engine, healthy)
    )
    cos, sin = engine.rope.at(torch.arange(len(IDS)))
    assert torch.equal(rotate(bare.transpose(0, 1), cos, sin).transpose(0, 1), turned)
    assert torch.equal(values, healthy_values)


def test_without_a_mask_a_later_token_reaches_an_earlier_row(tiny):
    def first_row(engine: Engine, last: int) -> Tensor:
        return run(engine, [*IDS[:-1], last])[0].resid_post[0]

    assert torch.equal(first_row(Engine(tiny), 7), first_row(Engine(tiny), 8))
    assert largest(first_row(broken(tiny, "no_causal_mask"), 7), first_row(broken(tiny, "no_causal_mask"), 8)) > 0.01


def test_a_prompt_of_one_token_shows_no_fault_of_mask_rope_or_scores(tiny):
    """One key: its weight is 1 whatever its score."""
    once = SamplingParams(temperature=0, max_new_tokens=1)
    healthy = logits(Engine(tiny), [7], once)
    for fault_id in ("no_causal_mask", "keys_without_rope", "wrong_rope_base", "qk_rows_in_file_order", "no_scaling"):
        assert bits_equal(logits(broken(tiny, fault_id), [7], once), healthy), fault_id


def test_one_slot_early_shifts_what_decode_writes(tiny):
    """Position 7 holds what belongs to 8, position 8 what belongs to 9, and the newest place is empty."""
    engine = broken(tiny, "cache_off_by_one")
    states = run(engine, IDS, SamplingParams(temperature=0, max_new_tokens=3))
    assert [state.slot_mapping.tolist() for state in states] == [list(range(8)), [7], [8]]
    keys = engine.kv_cache.gather(2, KEYS, torch.tensor([0]), 1, 10)
    assert torch.equal(keys[:, 8], states[2].k[0])
    assert not keys[:, 9].any()


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33])
def test_one_slot_early_is_right_at_every_edge_of_a_block(tiny, length):
    engine = broken(tiny, "cache_off_by_one")
    states = run(engine, [i % 60 for i in range(length)], SamplingParams(temperature=0, max_new_tokens=4))
    assert [state.slot_mapping[-1].item() for state in states[1:]] == [length - 1, length, length + 1]
    engine.check()


def test_a_used_block_keeps_what_was_in_it_and_a_fresh_one_is_right(tiny):
    fault = find_fault("stale_block")
    fresh = both(tiny, fault, IDS, situation=PLAIN)
    assert fresh.first is None
    other = [60 - i for i in IDS]
    engine = make_engine(tiny, PLAIN, fault, other)
    healthy = make_engine(tiny, PLAIN, None, other)
    expected = make_engine(tiny, PLAIN)
    for each, ids in ((engine, IDS), (healthy, IDS), (expected, other)):
        run(each, ids, SamplingParams(max_new_tokens=0))
    found, right, stale = (e.kv_cache.data[0, :, :, 0] for e in (engine, healthy, expected))
    assert torch.equal(found, stale)
    assert not torch.equal(found, right)


def test_a_penalty_that_divides_raises_a_token_below_zero(tiny):
    params = SamplingParams(temperature=0, max_new_tokens=1, repetition_penalty=1.5)
    healthy = run(make_engine(tiny, PLAIN), IDS, params)[0]
    state = run(broken(tiny, "penalty_divides"), IDS, params)[0]
    raw, seen = state.raw_logits[0], sorted(set(IDS))
    assert torch.equal(state.logits[0][seen], raw[seen] / 1.5)
    below = [i for i in seen if raw[i] < 0]
    assert below
    assert (state.logits[0][below] > raw[below]).all()
    assert (healthy.logits[0][below] < raw[below]).all()
    others = [i for i in range(TINY.vocab_size) if i not in seen]
    assert torch.equal(state.logits[0][others], raw[others])


def test_a_penalty_that_is_off_or_last_in_the_order(tiny):
    assert both(tiny, find_fault("penalty_divides"), IDS, situation=PLAIN).first is None
    last = dataclasses.replace(GREEDY, repetition_penalty=1.5, order=("temperature", "repetition"))
    record = both(tiny, find_fault("penalty_divides"), IDS, last, situation=PLAIN)
    assert record.first is not None
    assert record.first.difference.stage == "processor_2"


def test_positions_in_bfloat16_are_exact_up_to_256():
    model = tiny_model(config=dataclasses.replace(TINY, context_length=300))
    engine = broken(model, "half_precision_positions")
    ids = [i % 60 for i in range(261)]
    states = run(engine, ids, SamplingParams(max_new_tokens=0))
    cos = torch.cat([state.rope_cos for state in states])
    expected, _ = engine.rope.at(torch.tensor([*range(257), 256, 258, 260, 260]))
    assert torch.equal(cos, expected)


def test_the_first_token_stands_twice():
    fault = find_fault("first_token_doubled")
    assert fault.prompt_edit is not None
    assert fault.prompt_edit([5, 6, 7]) == [5, 5, 6, 7]
