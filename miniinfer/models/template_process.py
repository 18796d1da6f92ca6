"""The program in which strangers' chat templates run: `python -m miniinfer.models.template_process`.

A template is a program: its loops and products have no bound that could be checked beforehand. So it runs in a process
of its own, whose processor time and memory the system limits, that opens nothing, and that may be killed at any moment.
It reads a line of JSON and answers with one; template_sandbox.py is the other side. Imports jinja2 and nothing of ours.
"""

from __future__ import annotations

import encodings.ascii
import encodings.latin_1
import encodings.unicode_escape
import html
import json
import pprint
import signal
import sys
import textwrap
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.debug
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY_BYTES = 256 << 20  # beyond what the process has when it begins
MAX_RENDERED_CHARACTERS = 10_000_000
KEPT_TEMPLATES = 8
# What no template does. Whatever finds a way out of the sandbox meets this.
FORBIDDEN = (
    "open", "import", "socket", "subprocess", "os.", "ctypes", "shutil", "pickle", "urllib", "http", "sqlite3",
    "tempfile", "glob", "syslog", "mmap", "pty", "webbrowser", "marshal",
)  # fmt: skip
# What a template can raise: its own refusals, and what its expressions do with values they did not expect.
FAULTS = (
    jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError,
    MemoryError, RuntimeError,
)  # fmt: skip

Request = Mapping[str, Any]
LOADED_BEFOREHAND = (encodings, html, pprint, textwrap, jinja2.debug)  # jinja2 would when a template first needs them


class Renderer:
    """Renders what it is asked for, and keeps the newest templates."""

    def __init__(self) -> None:
        self._environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        self._environment.globals["raise_exception"] = _raise_exception
        self._known: OrderedDict[str, jinja2.Template] = OrderedDict()

    def answer(self, request: Request) -> dict[str, str]:
        """{"text": ...}, {"unreadable": why} for a template that cannot be read, or {"refused": why}.

        request: source, and variables; without them it is only read.
        """
        try:
            template = self._template(request["source"])
        except (jinja2.TemplateSyntaxError, SyntaxError, *FAULTS) as error:
            return {"unreadable": _reason(error)}
        if "variables" not in request:
            return {"text": ""}
        try:
            return {"text": self._render(template, request["variables"])}
        except FAULTS as error:
            return {"refused": _reason(error)}

    def _template(self, source: str) -> jinja2.Template:
        template = self._known.get(source)
        if template is None:
            template = self._known[source] = self._environment.from_string(source)
            if len(self._known) > KEPT_TEMPLATES:
                self._known.popitem(last=False)
        return template

    def _render(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        pieces, length = [], 0
        for piece in template.generate(variables):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_RENDERED_CHARACTERS:
                raise ValueError(f"it writes more than {MAX_RENDERED_CHARACTERS} characters")
        return "".join(pieces)


def _reason(error: BaseException) -> str:
    return str(error).rstrip(". ")[:2000] or type(error).__name__


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _limit_memory() -> None:
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):  # no such limit here: processor time, and the one who waits, bound it
        return


def _limit_time(seconds: float) -> None:
    """Of processor time, counted from now. The system ends the process then, whatever it is doing; 0 takes it back."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _audit(event: str, values: tuple[object, ...]) -> None:
    if event.startswith(FORBIDDEN):
        what = f"{event} {values[0]!s:.40}" if values else event
        raise RuntimeError(f"it tries to do what no template may ({what})")


def main() -> None:
    renderer = Renderer()
    renderer.answer({"source": "{{ '\\n' | tojson }}", "variables": {}})
    _limit_memory()
    sys.addaudithook(_audit)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit_time(request["seconds"])
        answer = renderer.answer(request)
        _limit_time(0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
