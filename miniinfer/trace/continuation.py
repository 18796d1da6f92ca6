"""A branch that begins with several tokens of the user's choice, each read by the model as a step of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from miniinfer.errors import BadInputError
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.run import ForceToken


def force_tokens(
    run: LiveRun, step: int, token_ids: Sequence[int], run_id: str, name: str
) -> Parts[LiveRun]:
    """A branch of `run` in which step `step` and those after it take these tokens. The trunk stays as it is.

    It is made of branches that force one token each, a token a part; those in between are released. A token that ends
    the run ends the continuation too.
    """
    if not token_ids:
        raise BadInputError("The continuation is empty; type at least one character.")
    trunk = run
    for index, token_id in enumerate(token_ids):
        last = index == len(token_ids) - 1
        try:
            if index:
                yield index / len(token_ids)
            if run is not trunk and not run.step():
                break
            branch = run.fork(ForceToken(step + index, token_id), run_id if last else f"{run_id} to {index}", name)
        except BaseException:
            if run is not trunk:
                run.release()
            raise
        if run is not trunk:
            run.release()
        run = branch
    edit = ForceToken(step, token_ids[0])
    run.info = dataclasses.replace(run.info, run_id=run_id, parent=trunk.info.run_id, edit=edit)
    return run
