"""Every preset shows on the real model what its name says, and each request gets the tokens that it gets alone, with
rubbish in every block that is free."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from miniinfer.trace.batch.alone import against_alone
from miniinfer.trace.batch.presets import ONE_LONG, OUT_OF_BLOCKS, PRESETS, SHARED_PROMPT, Preset
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.view import longest_request, requests_at, totals_at
from miniinfer.trace.records import TokenInfo
from tests.engine.helpers import poison

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel


def run_of(model: LoadedModel, preset: Preset, **changes: object) -> BatchRun:
    run = BatchRun(
        model, preset.requests, dataclasses.replace(preset.settings, **changes),  # type: ignore[arg-type]
        encode=lambda request: model.tokenizer.encode_prompt(request.prompt),
        describe=lambda i: TokenInfo(i, model.tokenizer.display(i), model.token_bytes[i]),
    )  # fmt: skip
    assert not run.refused
    while run.step():
        run.engine.check()
        poison(run.engine)
    return run


def test_presets_have_names_and_ids_of_their_own() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
    assert all(len(preset.requests) <= 16 for preset in PRESETS)


def test_one_long_seven_short(model: LoadedModel) -> None:
    runs = {batching: run_of(model, ONE_LONG, batching=batching) for batching in ("continuous", "static")}
    totals = {name: totals_at(run.trace, len(run.steps)) for name, run in runs.items()}
    assert totals["static"].padding_slots > 0
    assert totals["static"].idle_slots > 50
    assert totals["continuous"].wasted_slots == 0
    assert totals["continuous"].steps < totals["static"].steps
    views = {name: requests_at(run.trace, len(run.steps)) for name, run in runs.items()}
    for ours, theirs in zip(views["continuous"], views["static"], strict=True):
        assert ours.output == theirs.output
        assert ours.arrival == 0 or ours.first_token_step < theirs.first_token_step
    waste = run_of(model, ONE_LONG, batching="static", paging=False)
    assert len(waste.steps) > len(runs["static"].steps), "rows as long as the longest: fewer of them fit"
    for run in runs.values():
        assert longest_request(run.trace) == "r1"


def test_shared_system_prompt(model: LoadedModel) -> None:
    with_sharing, without = run_of(model, SHARED_PROMPT), run_of(model, SHARED_PROMPT, prefix_caching=False)
    views = requests_at(with_sharing.trace, len(with_sharing.steps))
    prompt = min(view.num_prompt_tokens for view in views)
    assert views[0].num_cached == 0
    assert all(view.num_cached > 0.7 * prompt for view in views[1:])
    ours, theirs = totals_at(with_sharing.trace, 999), totals_at(without.trace, 999)
    assert ours.num_tokens < 0.5 * theirs.num_tokens
    assert ours.peak_blocks < 0.6 * theirs.peak_blocks
    assert max(step.blocks.num_shared for step in with_sharing.steps) >= 3
    for view in views[1:2]:
        assert against_alone(with_sharing, view.request_id).same


def test_out_of_blocks(model: LoadedModel) -> None:
    run = run_of(model, OUT_OF_BLOCKS)
    totals = totals_at(run.trace, len(run.steps))
    assert totals.num_preemptions >= 2
    assert totals.num_recomputed > 20
    assert totals.peak_blocks == run.num_blocks
    assert totals_at(run_of(model, OUT_OF_BLOCKS, num_blocks=40).trace, 999).num_preemptions == 0
    preempted = [view for view in requests_at(run.trace, len(run.steps)) if view.num_preemptions]
    assert preempted
    for view in preempted[-1:]:
        found = against_alone(run, view.request_id)
        assert found.same or found.smallest_margin < 0.01
        assert found.largest_logit_difference < 1e-3
