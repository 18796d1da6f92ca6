"""A request of a batch run, run again alone: the same tokens, and logits that differ by rounding.

A product over more rows may add in another order, so the last digits of a logit depend on who else is in the step. At
temperature 0 that can turn a choice only where the two best logits lie closer together than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from miniinfer.config import EngineConfig
from miniinfer.errors import BadInputError
from miniinfer.trace.batch.records import AloneComparison, BatchStep
from miniinfer.trace.batch.run import BatchRun

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.engine import Engine


def against_alone(run: BatchRun, request_id: str) -> AloneComparison:
    """Run one request of the batch alone, as far as the batch has brought it. Called in the engine's thread.

    The batch's logits come back from its kept final-norm vectors, all rows of a step together as the step had them.
    Raises BadInputError if the request has no token yet.
    """
    *_, found = alone_steps(run, request_id)
    assert isinstance(found, AloneComparison)
    return found


def alone_steps(run: BatchRun, request_id: str) -> Iterator[float | AloneComparison]:
    """The same, one engine step a turn or a part of a long one, so that others can run in between: the share that is
    done, and last the comparison."""
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.step_parts import advanced_in_parts

    request = run.trace.request(request_id)
    places = _places(run.steps, request_id)
    if not places:
        raise BadInputError(f"Request {request_id!r} has no token yet, so there is nothing to compare: step on.")
    batched = tuple(token.token_id for step, i, _ in places if (token := step.rows[i].token) is not None)
    engine = Engine(run.model, EngineConfig(block_size=run.settings.block_size), backend=run.engine.backend)
    seq = engine.add_request(run.prompt_ids[request_id], request.params)
    difference, difference_at, margin, margin_at, first_difference = 0.0, 0, float("inf"), 0, None
    while seq.num_output_tokens < len(batched) and (state := engine.begin_step()) is not None:
        for _ in advanced_in_parts(engine, state):
            yield seq.num_output_tokens / len(batched)
        yield seq.num_output_tokens / len(batched)
        if not state.token_ids or state.token_ids[0] < 0:
            continue  # a prompt in chunks, or no token could be drawn
        index = seq.num_output_tokens - 1
        if first_difference is not None:
            continue
        alone = state.raw_logits[0]
        step, _, r = places[index]
        found = float((_logits(engine, step)[r] - alone).abs().max())
        if found > difference:
            difference, difference_at = found, index
        best = alone.topk(2).values
        if float(best[0] - best[1]) < margin:
            margin, margin_at = float(best[0] - best[1]), index
        if seq.output_ids[index] != batched[index]:
            first_difference = index
    yield AloneComparison(
        request_id, request.params, batched, tuple(seq.output_ids), first_difference, difference, difference_at, margin,
        margin_at,
    )  # fmt: skip


def _places(steps: list[BatchStep], request_id: str) -> list[tuple[BatchStep, int, int]]:
    """Where each of its tokens was chosen: the step, the index into its rows, and the row of its final_norm."""
    places = []
    for step in steps:
        drawn = [i for i, row in enumerate(step.rows) if row.token is not None]
        places += [(step, i, r) for r, i in enumerate(drawn) if step.rows[i].request_id == request_id]
    return places


def _logits(engine: Engine, step: BatchStep) -> torch.Tensor:
    """[R, V] of a step, from its kept vectors."""
    import torch

    from miniinfer.engine.lookup import logits_of

    return logits_of(engine, torch.from_numpy(np.array(step.final_norm)))
