"""Functions of the compiled core as the debugger shows them: the lines of the core's own files."""

from __future__ import annotations

from miniinfer.native.library import LONG, SHORT
from miniinfer.trace.inside.compiled_source import called_in, functions, with_inner
from miniinfer.trace.inside.source_lines import CORE

NAMES = {name.removeprefix("mi_") for name in (*LONG, *SHORT)}


def test_every_function_of_the_core_is_found_with_its_own_lines() -> None:
    found = functions(CORE)
    assert found.keys() >= NAMES
    for name in NAMES:
        file, start, lines = found[name]
        assert f"mi_{name}(" in lines[0]
        assert lines[-1].endswith("}")
        text = file.read_text("utf-8").splitlines()
        assert list(lines) == text[start - 1 : start - 1 + len(lines)]
        assert sum("mi_" in line and not line.startswith(" ") for line in lines) == 1, "and nothing of the next one"


def test_calls_are_found_where_python_makes_them_and_where_the_core_calls_itself() -> None:
    lines = [
        "    plan.library.step_rope(plan.address, layer)", "    x = library_of(y)", "    self._library.linear(",
        "backend_of(engine).library.for_rows(scores.shape[3]).attn_pattern(", "x.contiguous()",
    ]  # fmt: skip
    assert list(called_in(lines)) == ["step_rope", "linear", "for_rows", "attn_pattern"]
    assert with_inner(CORE, ["step_rope", "step_mlp_norm", "nothing"]) == [
        "step_rope", "rope", "step_mlp_norm", "rms_norm",
    ]  # fmt: skip
