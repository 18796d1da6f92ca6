"""A visitor of the app without a browser: a websocket that speaks Streamlit's messages, and asks as a workspace."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

from miniinfer.errors import MiniInferError
from miniinfer.figures.payload import unpack

PATIENCE = 60.0  # s for one answer; more than any bar
TRIGGER = "$$STREAMLIT_INTERNAL_KEY_{}__events"  # Streamlit's own name for what a component sends


class Visitor:
    """`components`: by key, the newest element of each on the page. `errors`: what went wrong, in words."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.components: dict[str, Any] = {}
        self.errors: list[str] = []
        self.said: list[str] = []  # notes and errors that the app showed
        self.tokens: list[int] = []  # by position, as the app has sent them
        self._fragments: dict[str, str] = {}
        self._widgets: dict[tuple[str, str], str] = {}  # (kind, label) -> id
        self._states: dict[str, WidgetState] = {}
        self._socket: ClientConnection | None = None
        self._number = 0
        self._query = ""
        self._page = ""  # without its hash Streamlit takes the page for another one, and forgets what was clicked

    async def enter(self, address: str, cookie: str = "") -> None:
        """Open the page and wait until it is drawn."""
        parts = urlsplit(address)
        headers = {"Cookie": cookie} if cookie else {}
        self._socket = await connect(
            f"ws://{parts.netloc}/_stcore/stream", subprotocols=["streamlit"], additional_headers=headers,  # type: ignore[list-item]
            origin=address, max_size=None, compression=None,
        )  # fmt: skip
        await self.rerun()

    async def leave(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def rerun(self, *triggers: WidgetState, fragment: str = "", until: str | None = None) -> float:
        """Have the page (or one fragment) drawn. Seconds until `until` (a component's key) arrived, or all of it."""
        assert self._socket is not None
        message = BackMsg()
        message.rerun_script.query_string = self._query
        message.rerun_script.page_script_hash = self._page
        message.rerun_script.widget_states.widgets.extend([*self._states.values(), *triggers])
        if fragment:
            message.rerun_script.fragment_id = fragment
        begin = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        arrived: float | None = None
        async with asyncio.timeout(PATIENCE):
            while True:
                part = ForwardMsg()
                part.ParseFromString(await self._socket.recv(decode=False))
                kind = part.WhichOneof("type")
                if kind == "delta" and self._take(part) == until and arrived is None:
                    arrived = time.perf_counter() - begin
                elif kind == "page_info_changed":
                    self._query = part.page_info_changed.query_string
                elif kind == "navigation":
                    self._page = part.navigation.page_script_hash
                elif kind == "script_finished" and part.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    return time.perf_counter() - begin if arrived is None else arrived

    def _take(self, part: ForwardMsg) -> str | None:
        element = part.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(f"{element.exception.type}: {element.exception.message}")
        elif kind == "text":
            self.said.append(element.text.body)
        elif kind in ("text_area", "text_input", "number_input", "button"):
            self._widgets[kind, getattr(element, kind).label] = getattr(element, kind).id
        elif kind == "bidi_component":
            key = element.bidi_component.id.rpartition("-")[2]
            self.components[key] = element.bidi_component
            if part.delta.fragment_id:
                self._fragments[key] = part.delta.fragment_id
            return key
        return None

    @property
    def transport(self) -> dict[str, Any]:
        return json.loads(self.components["transport"].json)[0]

    @property
    def is_live(self) -> bool:
        run = next((run for run in self.transport["runs"] if run["id"] == self.transport["run"]), None)
        return run is not None and run["kind"] == "live"

    async def new_run(self, prompt: str, seed: int, new_tokens: int, top_p: float | None = None) -> None:
        """Fill the side panel and press "New run"."""
        values = {
            ("text_area", "Prompt"): {"string_value": prompt}, ("text_input", "Seed"): {"string_value": str(seed)},
            ("number_input", "New tokens"): {"double_value": float(new_tokens)},
        } | ({} if top_p is None else {("number_input", "Top-p"): {"double_value": top_p}})
        for place, value in values.items():
            self._states[self._widgets[place]] = WidgetState(id=self._widgets[place], **value)  # type: ignore[arg-type]
        self.tokens = []
        await self.rerun(WidgetState(id=self._widgets["button", "New run"], trigger_value=True))
        self._read()

    async def step(self, want: int) -> float:
        """Ask for step `want` as the workspace does. Seconds until the answer was there."""
        header = self.header
        head = header["run"]["default_head"] or [0, 0]
        self._number += 1
        value = {
            "n": self._number, "run": header["run"]["id"], "want": want, "cursor": want, "details": [want],
            "have": {"meta": header["last"], "tok": len(self.tokens), "kv": header["last"]}, "exact": [*head, None],
        }
        trigger = WidgetState(
            id=TRIGGER.format(self.components["workspace"].id),
            json_trigger_value=json.dumps([{"event": "ask", "value": value}]),
        )
        took = await self.rerun(trigger, fragment=self._fragments["workspace"], until="workspace")
        self._read()
        if self.header["last"] < want:
            self.errors.append(f"asked for step {want}, got {self.header['last']}: {self.header['error']}")
        return took

    @property
    def header(self) -> dict[str, Any]:
        """The JSON part of the newest message to the workspace (docs/workspace-message.md)."""
        return dict(unpack(self.components["workspace"].bytes)[0])

    def _read(self) -> None:
        header = self.header
        if header["error"]:
            self.errors.append(header["error"])
        if header["note"]:
            self.said.append(header["note"])
        first, new = header["tok_from"], header["tokens"]
        if first > len(self.tokens):
            raise MiniInferError(f"{self.name}: tokens from {first} arrived, and {len(self.tokens)} are known.")
        self.tokens[first:] = [token[0] for token in new]
