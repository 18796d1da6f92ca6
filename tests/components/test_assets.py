"""The browser components as files: imports exist, nothing turns text into markup, nothing asks another origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from miniinfer.ui.bundle import FOLDER

ROOT = Path(__file__).parents[2] / "miniinfer" / "ui" / "components"
SCRIPTS = sorted(p for p in ROOT.glob("*/*.js") if p.parent.name != FOLDER)
STYLES = sorted(p for p in ROOT.glob("*/*.css") if p.parent.name != FOLDER)
MARKUP = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "createContextualFragment", "document.write", "eval(",
    "new Function",
)  # fmt: skip
COMPONENTS = ("transport", "workspace", "tokenizer", "program", "batching", "figure")
NAMESPACE = "http://www.w3.org/2000/svg"  # an XML name, not an address that is fetched


def test_there_are_components() -> None:
    for name in COMPONENTS:
        assert (ROOT / name / "main.js") in SCRIPTS
        assert (ROOT / name / f"{name}.css") in STYLES


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_script_imports_exist_and_stay_inside(path: Path) -> None:
    for target in re.findall(r'(?:from|import)\s*\(?"([^"\s]+)"', path.read_text("utf-8")):
        assert target.startswith(("./", "../")), target
        found = (path.parent / target).resolve()
        assert found.is_file(), target
        assert found.is_relative_to(ROOT), target


@pytest.mark.parametrize("path", STYLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_style_imports_exist_and_stay_inside(path: Path) -> None:
    for target in re.findall(r'url\("?([^")]+)"?\)', path.read_text("utf-8")):
        found = (path.parent / target).resolve()
        assert found.is_file(), target
        assert found.is_relative_to(ROOT), target


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_text_never_becomes_markup_or_code(path: Path) -> None:
    text = path.read_text("utf-8")
    for word in MARKUP:
        assert word not in text, word


@pytest.mark.parametrize("path", SCRIPTS + STYLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_other_origin_is_named(path: Path) -> None:
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", path.read_text("utf-8").replace(NAMESPACE, ""))


def test_streamlit_finds_all_components() -> None:
    """All share one folder, or a relative import would leave what Streamlit serves for the component."""
    from importlib.metadata import distribution

    from streamlit.components.v2 import manifest_scanner

    found = manifest_scanner._process_single_package(distribution("miniinfer"))
    assert found is not None, "the package is not installed, or its pyproject.toml is not found"
    manifest, package_root = found
    roots = {config.name: config.resolve_asset_root(package_root) for config in manifest.components}
    assert roots == dict.fromkeys(COMPONENTS, ROOT.resolve())


def test_every_style_sheet_of_a_page_lies_where_it_is_read() -> None:
    """A merge once brought back a file that nobody reads, and with it the rules that only stood there."""
    ui = ROOT.parent
    assert {path.parent for path in ui.rglob("*.css") if ROOT not in path.parents} == {ui / "styles"}
