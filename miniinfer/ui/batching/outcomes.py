"""The same requests under four settings: batching static or continuous, each with paging and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from miniinfer.measure.progress import Measurement, Progress
from miniinfer.trace.batch.alone import alone_steps
from miniinfer.trace.batch.outcome import BatchOutcome, outcome_of
from miniinfer.trace.batch.records import AloneComparison
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.parts import Parts

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.trace.batch.run import BatchRun
    from miniinfer.ui.batching.host import SessionBatch

WARM_UP_STEPS = 2
FULL = "The records of these runs do not fit into the memory of this tab: ask for fewer or shorter outputs."


def four_settings(settings: BatchSettings) -> list[BatchSettings]:
    """Both batchings with the paging that was chosen (all of it if it was off), then both without paging."""
    on = settings if settings.paging else replace(settings, paging=True)
    return [
        replace(on, batching=batching, paging=paging) for paging in (True, False)
        for batching in ("static", "continuous")
    ]  # fmt: skip


def words_of(settings: BatchSettings) -> str:
    sharing = "paging and prefix sharing" if settings.shares_prefixes else "paging" if settings.paging else "no paging"
    return f"{settings.batching}, {sharing}"


def measure_outcomes(
    batch: SessionBatch, model: LoadedModel, requests: Sequence[BatchRequest], settings: BatchSettings
) -> Measurement[tuple[BatchOutcome, ...]]:
    """Each of the four run to its end, one after another. The first two steps are run once before, unmeasured, because
    a process's first products are slower. Every `next` is one step or a part of it, in the engine's thread.
    Raises MiniInferError if the records of one of them do not fit into the tab's memory."""
    found = []
    choices = four_settings(settings)
    yield from _run(batch, batch.make(model, requests, choices[0]), "warming up", 0.0, 0.0, WARM_UP_STEPS)
    for i, choice in enumerate(choices):
        run = batch.make(model, requests, choice)
        found.append((yield from _run(batch, run, words_of(choice), i / len(choices), (i + 1) / len(choices))))
    return tuple(found)


def _run(
    batch: SessionBatch, run: BatchRun, words: str, start: float, stop: float, most: int | None = None
) -> Measurement[BatchOutcome]:
    """Its records count in the session's budget until the little that stays of them is made."""
    wanted = sum(r.params.max_new_tokens for r in run.requests if r.request_id not in run.refused)
    made = charged = 0
    said = Progress(words, start)
    try:
        while (most is None or len(run.steps) < most) and (yield from _saying(run.step_in_parts(), said)):
            charged += batch.charge(run.steps[-1], FULL)
            made += run.steps[-1].num_new_tokens
            share = min(1.0, made / max(1, wanted))
            said = Progress(f"{words}, step {len(run.steps)}", start + (stop - start) * share)
            yield said
        return outcome_of(run.trace)
    finally:
        run.release()
        batch.give_back(charged)


def _saying(work: Parts[bool], said: Progress) -> Measurement[bool]:
    """What it returns; others' steps come in between its parts."""
    try:
        while True:
            try:
                next(work)
            except StopIteration as end:
                return bool(end.value)
            yield said
    finally:
        work.close()


def compare_alone(run: BatchRun, names: Sequence[str]) -> Measurement[tuple[AloneComparison, ...]]:
    """Each of these requests of the batch again alone, one step a turn."""
    found = []
    for i, name in enumerate(names):
        for share in alone_steps(run, name):
            if isinstance(share, AloneComparison):
                found.append(share)
            else:
                yield Progress(f"request {name!r} alone", (i + share) / len(names))
    return tuple(found)
