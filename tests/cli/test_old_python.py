"""An old Python gets a sentence: the files that it reads first keep to what it can read."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import miniinfer.__main__ as entry

PACKAGE = Path(entry.__file__).parent


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_python_3_6_can_read_what_comes_before_the_check(name: str) -> None:
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"), feature_version=(3, 6))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "__future__" not in imported  # Python 3.6 does not know the one that would be of use


def test_the_sentence_names_both_versions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    assert entry.main() == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("miniinfer: MiniInfer needs Python 3.11 or newer and this is 3.9; install a newer one")
    assert shown.err.count("\n") == 1


def test_an_interrupt_while_the_command_is_being_read_is_no_stack_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "miniinfer.cli.main":
                raise KeyboardInterrupt

    monkeypatch.setattr(entry.sys, "meta_path", [Interrupted(), *entry.sys.meta_path])
    monkeypatch.delitem(entry.sys.modules, "miniinfer.cli.main", raising=False)
    assert entry.main() == 130
