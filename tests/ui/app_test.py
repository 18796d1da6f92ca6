"""The app run in process, as one browser tab would run it. All that leans on private parts of AppTest stands here."""

from __future__ import annotations

import functools
import json
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.caching import cache_resource_api
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest, app_test, local_script_runner
from streamlit.testing.v1.element_tree import Block, Button, ElementTree, parse_tree_from_messages

from miniinfer.figures.payload import unpack
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.side_panel import FOLDS
from tests.ui.waiting import wait_until

ROOT = Path(__file__).parents[2]
MARKUP = ("markdown", "caption", "title", "header", "subheader", "html", "latex")

_KINDS = {
    "prompt": "text_area", "kind": "button_group", "prefill": "button_group", "temperature": "slider",
    "example": "selectbox", "model_source": "text_input", "seed": "text_input",
    "model_device": "selectbox", "model_dtype": "selectbox",
}  # fmt: skip

Message = tuple[dict[str, Any], dict[str, np.ndarray]]


def close_tab() -> None:
    """What Streamlit does when the browser disconnects: the session's resources are released. Waits for that."""
    cache_resource_api.clear_session_cache("test session id")
    wait_until(lambda: not any(thread.name == "session-close" for thread in threading.enumerate()))


class _Pages(PagesManager):
    """AppTest forgets before each run that st.navigation was called; a real process does not. It forgets it here."""


class App:
    """One tab. `test` is Streamlit's own handle, for widgets; the two components are asked and read through here.

    Every fold of its side panel was opened once. No JavaScript runs. An ask reruns its own fragment only, as in the
    browser, or the whole app with `full`.
    """

    def __init__(self, sessions: list[Session], *, fresh_process: bool = False, **address: str) -> None:
        """sessions: where the sessions that the app makes are put. fresh_process: nobody has called st.navigation yet.
        address: the query string."""
        self._sessions = sessions
        PagesManager.uses_pages_directory = None if fresh_process else False
        self.test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        self.test.query_params.update(address)
        self.test.session_state[FOLDS] = {"panel_more": False, "panel_model": False}
        self._components: dict[str, Any] = {}
        self._fragments: dict[str, str] = {}

    # Runs

    def run(self) -> App:
        """A full run with what the widgets say now."""
        return self._run()

    def open(self, page: str) -> App:
        """Go to workspace, compare or model as a click in the page menu does: the query string is dropped."""
        self.test.switch_page(f"pages/{page}.py")
        self.test.query_params.clear()
        return self._run()

    def open_first(self, page: str) -> App:
        """The first run of a tab whose address names a page."""
        return self._run(page_name=page)

    def ask(self, component: str = "workspace", *, full: bool = False, **fields: Any) -> App:
        """What a component sends with setTriggerValue("ask", fields)."""
        return self.send(component, fields, full=full)

    def pick(self, figure: str, value: Any) -> App:
        """What a figure sends when a point of it is clicked: {"x": ..., "y": ...}. A full run."""
        return self.send(figure, value, event="pick", full=True)

    def send(self, component: str, value: Any, *, event: str = "ask", full: bool = False) -> App:
        """Like `ask`, with any JSON value, also one that our components never send."""
        trigger_id = f"$$STREAMLIT_INTERNAL_KEY_{self._components[component].id}__events"
        trigger = WidgetState(id=trigger_id, json_trigger_value=json.dumps([{"event": event, "value": value}]))
        return self._run(trigger, fragment_id_queue=[] if full else [self._fragments[component]])

    def tick(self) -> App:
        """The frame's fragment runs by itself, as it does twice a second while the model loads."""
        return self._run(fragment_id_queue=[self._fragments["transport"]], is_auto_rerun=True)

    # Widgets

    def fill(self, **values: Any) -> None:
        """Put values into the side panel's widgets, by their keys."""
        for key, value in values.items():
            kind = getattr(self.test, _KINDS.get(key, "number_input"))
            kind(key=key).set_value(value)

    def button(self, label: str) -> Button:
        """A button of the side panel."""
        return next(button for button in self.test.sidebar.button if button.label == label)

    def press(self, label: str) -> App:
        """Click it, which is a full run."""
        self.button(label).click()
        return self._run()

    def select(self, key: str, **selection: Any) -> App:
        """What a table or plot sends when rows or points are chosen in it: select("tree", rows=[2]). A full run.

        AppTest has no such method of its own. Each later run forgets what was chosen.
        """
        kinds = ("dataframe", "plotly_chart")
        found = next(
            e.proto for kind in kinds for e in self.test.get(kind) if e.proto.id.rpartition("-")[2] == key
        )
        return self._run(WidgetState(id=found.id, string_value=json.dumps({"selection": selection})))

    # What is seen

    @property
    def session(self) -> Session:
        """The session that this tab has now."""
        return self._sessions[-1]

    @property
    def message(self) -> Message:
        """Header and arrays of the newest message to the workspace."""
        return unpack(self._components["workspace"].bytes)

    @property
    def message_bytes(self) -> int:
        return len(self._components["workspace"].bytes)

    @property
    def address(self) -> dict[str, str]:
        """Session, run and step in the address; `panel` is test_views.py's."""
        return {name: value for name, value in self.test.query_params.items() if name != "panel"}

    @property
    def transport(self) -> dict[str, Any]:
        return json.loads(self._components["transport"].json)[0]

    @property
    def components(self) -> set[str]:
        """Keys of the components on the page."""
        return {element.key for element in self.test.get("bidi_component")}

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The figures on the page, by key, as the browser reads them: name, alt, picks, figure."""
        found = [e for e in self.test.get("bidi_component") if e.proto.component_name == "miniinfer.figure"]
        return {element.key: json.loads(element.proto.bytes) for element in found}

    @property
    def polls(self) -> bool:
        """Whether the last run told the browser to rerun a fragment by itself."""
        return any(message.HasField("auto_rerun") for message in self._messages)

    @property
    def only_fragments(self) -> bool:
        """Whether the last run drew fragments alone."""
        return self._was_fragment

    @property
    def sent_texts(self) -> list[str]:
        """What st.text sent in the last run, which may have drawn a part of the page only."""
        elements = [m.delta.new_element for m in self._messages if m.HasField("delta")]
        return [element.text.body for element in elements if element.WhichOneof("type") == "text"]

    @property
    def marked_up(self) -> list[str]:
        """Everything that goes through a markup renderer."""
        return [str(element.proto.body) for kind in MARKUP for element in self.test.get(kind)]

    def texts(self, key: str | None = None) -> list[str]:
        """What is shown by st.text, literally; of one keyed container, or of the whole page."""
        root = self.test._tree
        places = [root] if key is None else [n for n in list(root)[1:] if isinstance(n, Block) and n.key == key]
        return [element.value for place in places for element in place.get("text")]

    # How

    def _run(self, trigger: WidgetState | None = None, **rerun: Any) -> App:
        full = self.test._tree
        states: WidgetStates = full.get_widget_states()
        if trigger is not None:
            states.widgets.append(trigger)
        asked = functools.partial(RerunData, **rerun)
        with (
            patch.object(app_test, "PagesManager", _Pages),
            patch.object(local_script_runner, "RerunData", asked),
            patch.object(local_script_runner, "parse_tree_from_messages", self._parse),
        ):
            self.test._run(states)
        assert not self.test.exception, [(e.message, e.stack_trace) for e in self.test.exception]
        self._components |= {element.key: element.proto for element in self.test.get("bidi_component")}
        if self._was_fragment:
            self.test._tree = full  # a fragment's run sends its own elements only; the rest of the page stays
        return self

    def _parse(self, messages: list[ForwardMsg]) -> ElementTree:
        self._messages = messages
        # A fragment may ask for a full run, which draws what belongs to no fragment too.
        self._was_fragment = all(message.delta.fragment_id for message in messages if message.HasField("delta"))
        for message in messages:
            element = message.delta.new_element
            if element.WhichOneof("type") == "bidi_component" and message.delta.fragment_id:
                key = element.bidi_component.id.rpartition("-")[2]
                self._fragments[key] = message.delta.fragment_id
        return parse_tree_from_messages(messages)
