"""Which scripts a page will want, told to the browser with the page itself.

Streamlit's page asks for the script of an element when it hears of the element, for what that imports when it has read
it, and for our components' scripts after that: five rounds of questions to a server that is importing torch meanwhile.
Told with the first answer, they are fetched while the page's main script is read: behind it, for a browser fetches in
the order in which it hears, six at a time. A hint that is wrong costs one request; the page asks for what it needs in
any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import streamlit
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniinfer.ui.bundle import served_files

STATIC = Path(streamlit.__file__).parent / "static"
ELEMENTS = ("BidiComponent", "Html", "Selectbox", "ButtonGroup", "TextArea", "TextInput", "NumberInput", "Slider")
COMPONENTS = ("transport", "workspace")
HEAD_BYTES = 20_000  # of a script: its imports stand first
_IMPORT = re.compile(r"""(?:from|import)["']\./([\w.-]+\.js)["']""")
_NAMED = re.compile(r"""(?:src|href)="\./static/js/([\w.-]+\.js)\"""")


def element_scripts(static: Path = STATIC) -> list[str]:
    """Streamlit's scripts that its page names, then those for the elements of the first page, each with what it
    imports."""
    scripts = static / "static" / "js"
    named = _NAMED.findall((static / "index.html").read_text("utf-8"))
    roots = [path.name for name in ELEMENTS for path in sorted(scripts.glob(f"{name}.*.js"))]
    return list(_closure(scripts, named) | _closure(scripts, roots))


def _closure(scripts: Path, names: Iterable[str]) -> dict[str, None]:
    """These and all that they import, in the order in which they are met."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in found and (scripts / name).is_file():
            found[name] = None
            with open(scripts / name, "rb") as script:
                waiting += _IMPORT.findall(script.read(HEAD_BYTES).decode("utf-8", errors="replace"))
    return found


class Hints:
    """ASGI middleware: adds a Link header to each answer that is a page, once `prepare` has run. It stands behind the
    guard: who has not given the pass phrase gets no script, so none is hinted at."""

    links = b""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @classmethod
    def prepare(cls) -> None:
        """Before the server listens. Without Streamlit's scripts where they are looked for there are no hints."""
        with suppress(OSError):
            ours = [f"./_stcore/bidi-components/miniinfer.{name}/{served_files(name)[0]}" for name in COMPONENTS]
            paths = [*(f"./static/js/{name}" for name in element_scripts()), *ours]
            cls.links = ", ".join(f"<{path}>; rel=modulepreload" for path in paths).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.links:
            await self._app(scope, receive, send)
            return

        async def send_with_links(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                message = {**message, "headers": [*message.get("headers", []), (b"link", self.links)]}
            await send(message)

        await self._app(scope, receive, send_with_links)


def _is_page(message: Message) -> bool:
    headers = {name.lower(): value for name, value in message.get("headers", [])}
    return message["status"] == 200 and headers.get(b"content-type", b"").startswith(b"text/html")
