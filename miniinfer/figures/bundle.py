"""Browser modules and style sheets put together to one text each, for a page that fetches nothing.

Modules keep what they are: each becomes a function's body, run once, whose exports the ones that import it take apart.
Only what our own files use is known: named imports and exports at the beginning of a line, no cycles.
"""

from __future__ import annotations

import re
from pathlib import Path

IMPORT = re.compile(r'^import\s+(?:(\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
RENAMED = re.compile(r"(\w+) as (\w+)")
CSS_IMPORT = re.compile(r'@import url\("([^"]+)"\);\n')


def bundle_scripts(entry: Path) -> str:
    """One classic script that does what the module `entry` does. Raises ValueError for what it does not know."""
    done: dict[Path, str] = {}
    parts: list[str] = []

    def add(path: Path, above: tuple[Path, ...]) -> str:
        if path in above:
            raise ValueError(f"{path.name} imports itself in a circle")
        if path not in done:
            text = path.read_text("utf-8")

            def take(found: re.Match[str]) -> str:
                name = add((path.parent / found[2]).resolve(), (*above, path))
                if found[1] is None:
                    return ""
                if found[1].startswith("*"):
                    return f"const {found[1].split()[-1]} = {name};\n"
                names = RENAMED.sub(r"\1: \2", found[1])
                return f"const {names} = {name};\n"

            body = IMPORT.sub(take, text)
            exports = [found[2] for found in EXPORT.finditer(body)]
            body = EXPORT.sub(r"\1 \2", body)
            if left := re.search(r"^(?:import|export)\b.*", body, re.MULTILINE):
                raise ValueError(f"{path.name} has an import or export that cannot be bundled: {left[0]}")
            done[path] = f"m{len(done)}_{path.stem}"
            parts.append(f"const {done[path]} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();\n")
        return done[path]

    add(entry.resolve(), ())
    script = '"use strict";\n' + "".join(parts)
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise ValueError("a script may not hold what ends a script in a page")
    return script


def bundle_styles(entry: Path) -> str:
    """A style sheet with all that it imports in place, each file once."""
    seen: set[Path] = set()

    def add(path: Path) -> str:
        if path in seen:
            return ""
        seen.add(path)
        return CSS_IMPORT.sub(lambda found: add((path.parent / found[1]).resolve()), path.read_text("utf-8"))

    sheet = add(entry.resolve())
    if re.search(r"@import|url\(|</style", sheet, re.IGNORECASE):
        raise ValueError("a style sheet may not fetch anything, nor hold what ends one in a page")
    return sheet
