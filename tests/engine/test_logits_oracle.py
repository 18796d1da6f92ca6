"""Each logits processor against the same rule in transformers, wherever it defines one.

What differs, and is not compared:
- top-k of equals at the edge: transformers keeps all that tie with the k-th, we exactly k.
- top-p: transformers sums from the worst up and keeps what lies above 1 - p, we sum from the best down until p is
  reached. They part where p falls on a sum to the last bit, so the examples here have none.
- temperature 0 and a repetition penalty of a token seen twice have one meaning in both; presence and frequency
  penalties have no counterpart there.
- transformers counts the prompt of encoder and decoder models apart; a decoder's is in input_ids, as here.
"""

from __future__ import annotations

import pytest
import torch
from transformers.generation import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from miniinfer.config import SamplingParams
from miniinfer.engine.sampler import sampler_trace
from miniinfer.trace.sampling.sampling import ORDERS

VOCAB = 2000
SEEN = [3, 5, 5, 700, 1999, 3]
PROMPT, OUTPUT = SEEN[:4], SEEN[4:]


def some_logits(seed: int) -> torch.Tensor:
    return 4 * torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed))


def theirs(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    made = {
        "repetition": lambda: RepetitionPenaltyLogitsProcessor(params.repetition_penalty),
        "temperature": lambda: TemperatureLogitsWarper(params.temperature),
        "top_k": lambda: TopKLogitsWarper(params.top_k),
        "top_p": lambda: TopPLogitsWarper(params.top_p),
        "min_p": lambda: MinPLogitsWarper(params.min_p),
    }
    ids, scores = torch.tensor([SEEN]), logits[None]
    for name in params.order:
        off = (name == "top_k" and not params.top_k) or (name == "min_p" and not params.min_p)
        if name in made and not off:
            scores = made[name]()(ids, scores)
    return scores[0]


@pytest.mark.parametrize("order", ORDERS.values(), ids=["temperature first", "temperature last"])
@pytest.mark.parametrize(
    "changes",
    [
        {"repetition_penalty": 1.3}, {"repetition_penalty": 0.7}, {"temperature": 0.6}, {"temperature": 1.9},
        {"top_k": 1}, {"top_k": 40}, {"top_p": 0.1}, {"top_p": 0.9}, {"top_p": 0.999}, {"min_p": 0.05}, {"min_p": 0.9},
        {"temperature": 1.7, "top_p": 0.8, "top_k": 100, "min_p": 0.02, "repetition_penalty": 1.2},
        {"temperature": 0.4, "top_p": 0.95, "top_k": 30, "repetition_penalty": 1.1},
    ],
    ids=str,
)  # fmt: skip
def test_the_logits_left_are_the_same(changes: dict[str, float], order: tuple[str, ...]) -> None:
    params = SamplingParams(**{"temperature": 1.0, "top_p": 1.0, "order": order} | changes)  # type: ignore[arg-type]
    for seed in range(3):
        logits = some_logits(seed)
        trace = sampler_trace(logits, params, PROMPT, OUTPUT)
        expected = theirs(logits, params)
        assert torch.equal(trace.stages[-1].logits.isneginf(), expected.isneginf())
        torch.testing.assert_close(trace.stages[-1].logits, expected, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(trace.probs, expected.softmax(-1), rtol=1e-5, atol=1e-7)


def test_top_k_of_equals_is_the_documented_difference() -> None:
    logits = torch.tensor([1.0, 3.0, 2.0, 2.0, 2.0])
    params = SamplingParams(temperature=1.0, top_p=1.0, top_k=3)
    assert int((sampler_trace(logits, params).probs > 0).sum()) == 3
    assert int(theirs(logits, params).isfinite().sum()) == 4
