"""A fault is a replaced stage: the engine's program with one function exchanged, never an `if` inside the maths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from miniinfer.engine.stage import Stage, StageFunction
from miniinfer.errors import BadInputError

# Takes the function that a stage has and gives the one that shall stand in its place. Most faults call the healthy
# function and spoil what goes into it or comes out of it, so that nothing of the model is written down twice.
Wrap = Callable[[StageFunction], StageFunction]


def replace_stage(
    program: tuple[Stage, ...], name: str, fn: StageFunction, *, layers: Iterable[int] | None = None
) -> tuple[Stage, ...]:
    """The same program with another function in every stage called `name`, or in those of some layers only.

    Give it to `Engine(model, program=...)`. Raises BadInputError if no stage fits.
    """
    return wrap_stage(program, name, lambda _healthy: fn, layers=layers)


def wrap_stage(
    program: tuple[Stage, ...], name: str, wrap: Wrap, *, layers: Iterable[int] | None = None
) -> tuple[Stage, ...]:
    """The same program with `wrap(its function)` in every stage called `name`, or in those of some layers only.

    Raises BadInputError if no stage fits.
    """
    chosen = None if layers is None else set(layers)
    fits = [s.name == name and (chosen is None or s.layer in chosen) for s in program]
    if not any(fits):
        names = ", ".join(dict.fromkeys(s.name for s in program))
        raise BadInputError(f"No stage {name!r} in these layers; the stages are {names}.")
    return tuple(dataclasses.replace(s, fn=wrap(s.fn)) if fit else s for s, fit in zip(program, fits, strict=True))
