"""The source shown is the file's own, and the marked lines are those that ran."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import miniinfer
from miniinfer.engine.stages import attention
from miniinfer.trace.inside.inside import StepInside
from tests.trace.live import live_run

ROOT = Path(miniinfer.__file__).parents[1]


def sources(pc: int, step: int = 1):
    run = live_run()
    run.step()
    inside = StepInside(run, step)
    inside.goto(pc)
    look = inside.look()
    assert look is not None
    inside.close()
    return look.sources


def test_the_stage_comes_first_with_its_real_lines() -> None:
    for pc in (1, 4, 7, 8, 12, 37, 39, 47):
        for source in sources(pc):
            text = (ROOT / source.file).read_text("utf-8").splitlines()
            assert list(source.lines) == text[source.start - 1 : source.start - 1 + len(source.lines)]
            assert all(source.start < n < source.start + len(source.lines) for n in source.ran)
    stage = sources(5)[0]
    assert stage.name == "qkv_proj"
    assert stage.file == "miniinfer/engine/stages/attention.py"
    assert "\n".join(stage.lines) + "\n" == inspect.getsource(attention.qkv_proj)


def test_a_line_is_marked_only_if_it_ran() -> None:
    """In layer 0 there is no layer before: the line under the `if` must not be marked; in layer 1 it must."""
    marked = {}
    for layer, pc in ((0, 4), (1, 15)):
        stage = sources(pc)[0]
        line = next(i for i, text in enumerate(stage.lines) if "state.resid_pre = state.resid_post" in text)
        marked[layer] = stage.start + line in stage.ran
    assert marked == {0: False, 1: True}


def test_what_the_stage_called_is_shown_too_and_observers_are_not() -> None:
    names = [source.name for source in sources(6)]
    assert names[:2] == ["rope", "rotate"]
    names = [source.name for source in sources(7)]
    assert {"place_tokens", "KVCache.write"} <= set(names)
    assert not {"StepInside._note", "row_norms", "StepInside._advance"} & set(names)


def test_comprehensions_belong_to_the_function_around_them() -> None:
    stage = sources(9)[0]
    line = next(i for i, text in enumerate(stage.lines) if "softmax" in text and "scores.float()" in text)
    assert stage.start + line in stage.ran


def test_another_tracer_is_put_back() -> None:
    def tracer(*args: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        sources(6)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
