"""What the debugger says of a step that ran in the compiled core: lines of Python, and what they called."""

from __future__ import annotations

from miniinfer.native.backend import NativeBackend
from miniinfer.trace.inside.inside import StepInside
from miniinfer.trace.inside.source_lines import SourceText
from tests.engine.tiny import tiny_model
from tests.trace.live import live_run


def sources(inside: StepInside, name: str) -> list[SourceText]:
    inside.goto(1 + next(i for i, s in enumerate(inside.program) if s.name == name and s.layer in (None, 1)))
    look = inside.look()
    assert look is not None
    return list(look.sources)


def test_a_stage_of_the_core_shows_the_functions_that_it_called(backend: NativeBackend) -> None:
    model = tiny_model()
    object.__setattr__(model, "choose_backend", lambda weights: backend)
    run = live_run(model=model)
    run.step()
    run.step()
    inside = StepInside(run, 2)
    found = sources(inside, "mlp_norm")
    assert [(s.name, s.compiled) for s in found if s.compiled or s is found[0]] == [
        ("mlp_norm", False), ("mi_step_mlp_norm", True), ("mi_rms_norm", True),
    ]  # fmt: skip
    assert any("library.step_mlp_norm(" in line for line in found[0].ran_lines)
    assert all(not s.ran for s in found if s.compiled), "nobody knows which of these lines ran"
    names = [s.name for s in sources(inside, "unembed")]
    assert names[0] == "unembed"
    assert names[-1] == "mi_linear"
    assert "NativeLinear.__call__" in names
    inside.close()
    inside = StepInside(run, 1)  # the prefill
    names = [s.name for s in sources(inside, "attn_scores")]
    assert names[0] == "attn_scores"
    assert names[-1].startswith("mi_attn_scores")
    assert sources(inside, "attn_pattern")[-1].name == "mi_attn_pattern"
    inside.close()
