"""How a step chose, taken from what its stages left: bit for bit what the stages give when they are computed again."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from tests.trace.live import live_run

SETTINGS = {
    "greedy": SamplingParams(temperature=0, max_new_tokens=8),
    "filters": SamplingParams(temperature=0.7, top_k=9, top_p=0.8, min_p=0.01, seed=4, max_new_tokens=8),
    "penalties": SamplingParams(
        temperature=1.3, repetition_penalty=1.4, presence_penalty=0.5, frequency_penalty=0.2, top_p=0.9, seed=1,
        order=tuple(reversed(PROCESSOR_NAMES)), max_new_tokens=8,
    ),
    "nothing": SamplingParams(temperature=1, seed=2, max_new_tokens=8),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_newest_choice_is_the_one_computed_again(name: str) -> None:
    run = live_run(params=SETTINGS[name])
    for _ in range(5):
        run.step()
        newest = run._recorder.newest
        kept = newest.sampler_trace(run.info.params.order)
        seen = run.next_token(len(run.records))
        run._recorder.newest = None  # as for every older step
        run._next.clear()
        assert run.next_token(len(run.records)) == seen
        run._recorder.newest = newest
        again = compute_again(run)
        for field in dataclasses.fields(again):
            mine, its = getattr(kept, field.name), getattr(again, field.name)
            if field.name == "stages":
                assert [s.name for s in mine] == [s.name for s in its]
                assert all(torch.equal(a.logits, b.logits) for a, b in zip(mine, its, strict=True))
            else:
                assert torch.equal(mine, its) if isinstance(mine, torch.Tensor) else mine == its
        assert kept.token_id == run.records[-1].sequences[0].token_id


def compute_again(run):
    from miniinfer.engine.sampler import sampler_trace

    part = run.records[-1].sequences[0]
    prompt, ids = run.info.num_prompt_tokens, run.seq.token_ids[: part.context_len]
    logits = run._recorder.newest.logits[0]
    return sampler_trace(logits, run.info.params, ids[:prompt], ids[prompt:], part.coin)
