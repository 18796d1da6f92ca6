"""The small files of a component, joined into one script and one style sheet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from miniinfer.ui import bundle

COMPONENTS = ("workspace", "transport", "batching", "program", "tokenizer", "figure")


FILES = {
    "one/main.js": """// A component.

import { twice as double, START } from "../shared/maths.js";
import * as maths from "../shared/maths.js";
import "./side.js";

export default function one() {
  return double(START) + maths.START;
}
""",
    "one/side.js": 'import {\n  START,\n} from "../shared/maths.js";\n\nSTART.toFixed();\n',
    "shared/maths.js": "export const START = 4;\nexport function twice(x) {\n  return 2 * x;\n}\n",
    "one/one.css": '@import url("../shared/base.css");\n.one { color: red; }\n',
    "shared/base.css": ".all { margin: 0; }\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A component of the test's own."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    return tmp_path


def test_each_file_is_called_once_after_those_it_imports(root: Path) -> None:
    text = bundle.join_scripts("one/main.js")
    assert re.findall(r'^\$\["([^"]+)"\] =', text, re.MULTILINE) == ["shared/maths.js", "one/side.js", "one/main.js"]
    assert 'const { twice: double, START } = $["shared/maths.js"];\nconst maths = $["shared/maths.js"];\n' in text
    assert 'const {\n  START,\n} = $["shared/maths.js"];' in text
    assert "return { START, twice };" in text
    assert text.endswith('return { default: one };\n})();\nexport default $["one/main.js"].default;\n')
    assert not re.search(r"^import", text, re.MULTILINE)


def test_style_sheets_stand_in_the_place_of_their_import(root: Path) -> None:
    assert bundle.join_styles("one/one.css") == ".all { margin: 0; }\n.one { color: red; }\n"


def test_the_file_is_named_by_what_is_in_it(root: Path) -> None:
    script, style = bundle.component_files("one")
    assert (root / script).read_text() == bundle.join_scripts("one/main.js")
    assert bundle.component_files("one") == (script, style), "a second start finds it"
    (root / "shared" / "maths.js").write_text("export const START = 5;\nexport const twice = (x) => 2 * x;\n")
    changed, same = bundle.component_files("one")
    assert (changed != script, same) == (True, style)
    assert (root / script).is_file(), "a server that was started before may still give it out"
    os.utime(root / script, (0, 0))
    (root / changed).unlink()
    bundle.component_files("one")
    assert sorted(p.name for p in (root / bundle.FOLDER).iterdir()) == sorted(Path(p).name for p in (changed, style))


def test_where_nothing_can_be_written_the_files_are_served_one_by_one(root: Path) -> None:
    (root / bundle.FOLDER).touch()  # no folder can be made in its place
    assert bundle.component_files("one") == ("one/main.js", "one/one.css")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('import { a } from "./main.js";\n', "import each other"),
        ("export { a };\n", "write it as the other files do"),
        ('export * from "./side.js";\n', "write it as the other files do"),
        ('const late = () => import("./late.js");\n', "write it as the other files do"),
    ],
)
def test_what_cannot_be_joined_is_refused(root: Path, source: str, says: str) -> None:
    (root / "one" / "side.js").write_text(source)
    with pytest.raises(ValueError, match=says):
        bundle.join_scripts("one/main.js")


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_can_be_joined(name: str) -> None:
    text = bundle.join_scripts(f"{name}/main.js")
    lines = text.splitlines()
    assert [line for line in lines if line.startswith(("import", "export"))] == [lines[-1]]
    assert "@import" not in bundle.join_styles(f"{name}/{name}.css")
