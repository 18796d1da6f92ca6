"""Reading requirements files, and knowing what an interpreter has, without importing anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from miniinfer.cli.bootstrap import RUN_FILES, TEST_FILES, project_root, wanted
from miniinfer.cli.requirements import Requirements, installed, read
from miniinfer.errors import MiniInferError


def put_package(folder: Path, name: str, version: str, source: Path | None = None, *, whole: bool = True) -> None:
    """A .dist-info folder as pip leaves it; `source` makes it an editable install of that folder."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    if whole:
        (info / "RECORD").write_text("")
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))


def test_the_projects_own_files_can_be_read() -> None:
    run, test = wanted(project_root(), RUN_FILES), wanted(project_root(), TEST_FILES)
    assert dict(run.pins)["streamlit"]
    assert run.editable
    assert set(run.pins) < set(test.pins)
    assert "pytest" in dict(test.pins)


def test_comments_other_files_and_names(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("# a comment\nSome.Thing==1.0  # why\n-e .\n")
    (tmp_path / "more.txt").write_text("-r base.txt\n\nother_thing==2.0+cpu\n")
    pins = (("some-thing", "1.0"), ("other-thing", "2.0+cpu"))
    assert read(tmp_path / "more.txt") == Requirements(pins, editable=True)


@pytest.mark.parametrize("line", ["thing>=1", "thing", "--index-url there", "thing[extra]==1"])
def test_a_line_that_pins_nothing_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.txt").write_text(f"fine==1\n{line}\n")
    with pytest.raises(MiniInferError, match=r"Line 2 of .*r.txt"):
        read(tmp_path / "r.txt")


def test_a_missing_requirements_file_says_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(MiniInferError, match=r"requirements.txt is not in .*; start MiniInfer from a clone"):
        wanted(tmp_path, RUN_FILES)


def test_what_is_unmet_is_said(tmp_path: Path) -> None:
    site, root = tmp_path / "site", tmp_path / "root"
    root.mkdir()
    asked = Requirements((("some-thing", "1.0"), ("torch", "2.13.0")), editable=True)
    assert asked.unmet(root, [site]) == "some-thing 1.0 is not installed"
    put_package(site, "Some_Thing", "1.0")
    put_package(site, "torch", "2.12.0+cpu")
    assert asked.unmet(root, [site]) == "torch is 2.12.0+cpu and must be 2.13.0"
    (site / "torch-2.12.0+cpu.dist-info").rename(site / "torch-2.13.0+cpu.dist-info")
    assert asked.unmet(root, [site]) == "the project itself is not installed"
    put_package(site, "miniinfer", "0.1.0", root)
    assert asked.unmet(root, [tmp_path / "not there", site]) is None


def test_another_clone_does_not_count(tmp_path: Path) -> None:
    """Streamlit would serve the other clone's components."""
    put_package(tmp_path / "site", "miniinfer", "0.1.0", tmp_path / "other clone")
    assert Requirements((), editable=True).unmet(tmp_path, [tmp_path / "site"]) == "the project itself is not installed"


def test_a_copied_project_does_not_count(tmp_path: Path) -> None:
    put_package(tmp_path / "site", "miniinfer", "0.1.0")
    assert Requirements((), editable=True).unmet(tmp_path, [tmp_path / "site"]) is not None


def test_a_package_without_a_record_was_cut_off(tmp_path: Path) -> None:
    put_package(tmp_path, "thing", "1.0", whole=False)
    assert installed([tmp_path]) == ({}, None)


def test_the_first_folder_wins(tmp_path: Path) -> None:
    put_package(tmp_path / "a", "thing", "1.0")
    put_package(tmp_path / "b", "thing", "2.0")
    assert installed([tmp_path / "a", tmp_path / "b"])[0] == {"thing": "1.0"}
