"""All pages: drawn before any model is there and after, entered from anywhere, inside their frame."""

import subprocess
import sys
import tomllib

import pytest
import streamlit as st

from tests.ui.app_test import ROOT, close_tab

PAGES = (
    "workspace", "sampling", "kv_cache", "cost", "batching", "tokenizer", "attention", "inside", "break_it", "compare",
    "model", "runs",
)  # fmt: skip
TITLES = (
    "Workspace, Sampling, KV cache, Cost, Batching, Tokenizer, Attention, Inside a step, Break it, Compare, Model, "
    "Runs"
)
# Components of a page beside the frame's.
OWN = {
    "tokenizer": ("tokenizer_stages",), "inside": ("program", "inside_heat", "inside_histogram"),
    "batching": ("batching",), "attention": ("attention_maps",),
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_page_draws_before_the_model_is_there_and_after(open_app, gate, page):
    app = open_app(gate.host).run()
    app.open(page)
    assert "transport" in app.components
    assert ("workspace" in app.components) == (page == "workspace")
    assert app.transport["model"]["state"] == "loading"
    assert app.transport["has_driver"] is (page == "workspace")
    assert (app.transport["run"], app.transport["kind"], app.transport["cursor"]) == ("example", "recorded", 1)
    address = {"s": app.session.keeper.token}
    assert app.address == address | {"run": "example", "step": "1"}
    assert app.polls, "the browser is told to look again by itself while the model loads"
    gate.open()
    app.run()
    assert (app.transport["run"], app.transport["kind"], app.transport["cursor"]) == ("r1", "live", 1)
    assert app.address == address | {"run": "r1", "step": "1"}
    assert not app.polls
    assert gate.host.num_loads == 1


@pytest.mark.parametrize("page", PAGES[1:])
def test_a_page_opened_first_in_a_fresh_process_has_its_frame(open_app, page):
    components = {"transport", *OWN.get(page, ())}
    app = open_app(fresh_process=True).open_first(page)
    assert app.components == components
    assert app.test.sidebar.button
    names = [p["page_name"] for p in app.test._registered_pages.values()]
    assert names == TITLES.split(", ")
    app.run()
    assert app.components == components


def test_run_and_step_stand_in_the_address_on_every_page(app):
    """Of a step the browser writes the address itself; every full run of the script writes it too."""
    app.ask(n=1, run="r1", want=2, cursor=2, have={"meta": 1, "tok": 6, "kv": 5})
    for page in (*PAGES, "workspace"):
        app.open(page)
        assert app.address == {"s": app.session.keeper.token, "run": "r1", "step": "2"}
        assert app.transport["cursor"] == 2


def test_twenty_reruns_and_ten_tabs_load_once(open_app, gate):
    app = open_app(gate.host).run()
    gate.open()
    for _ in range(20):
        app.run()
    sessions = {app.session.session_id}
    for _ in range(9):
        close_tab()
        sessions.add(open_app(gate.host).run().session.session_id)
    assert len(sessions) == 10
    assert gate.host.num_loads == 1


def test_an_address_whose_run_is_not_saved_says_so(open_app):
    app = open_app(run="r7", step="12").run()
    header, _ = app.message
    assert "not among the saved ones" in header["error"]
    assert (header["run"]["id"], header["cursor"]) == ("r1", 1)
    assert app.address == {"s": app.session.keeper.token, "run": "r1", "step": "1"}
    app.ask(n=1, run="r1", cursor=0)
    assert app.message[0]["error"] is None, "the sentence goes with the next click"


def test_a_tab_that_comes_back_after_its_session_was_closed_has_its_run_again(app):
    app.ask(n=1, run="r1", want=3, cursor=3)
    before = app.session
    tokens = [t.token_id for t in before.timeline.current.tokens]
    app.test.query_params.update(step="3")  # as the browser does
    close_tab()
    app.ask(n=2, run="r1", want=4, cursor=4)  # the fragment still belongs to the closed session
    assert app.message[0]["run"]["id"] == "example"
    assert "lost its connection" in app.message[0]["error"]
    app.run()
    assert app.session is not before
    header, _ = app.message
    assert (header["run"]["id"], header["run"]["kind"], header["cursor"], header["error"]) == ("r1", "live", 3, None)
    assert "is back at step 3" in header["note"]
    assert [t[0] for t in header["tokens"]] == tokens


def test_the_page_is_drawn_before_torch_is_imported():
    """In a process of its own: a first run that names what it has imported when the page stands."""
    code = (
        "import sys, threading\n"
        "from miniinfer.ui.sessions import model_host\n"
        "model_host.ModelHost._load = lambda self, key: None\n"
        "from tests.ui.app_test import App\n"
        "app = App([]).run()\n"
        "assert app.components == {'transport', 'workspace'}\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def test_an_ask_without_its_component_is_no_error(app, monkeypatch):
    from miniinfer.ui import mount  # it registers the components, which needs the app's process

    state: dict[str, object] = {"transport": None}
    monkeypatch.setattr(mount.st, "session_state", state)
    assert mount.ask_of("workspace") is None
    assert mount.ask_of("transport") is None
    state["transport"] = {"ask": {"n": 1}}
    assert mount.ask_of("transport") == {"n": 1}


def test_the_list_of_the_files_in_pages_is_never_shown():
    """Until st.navigation was called in a process, Streamlit lists them in the side panel: a flash at a first visit."""
    assert tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["client"]["showSidebarNavigation"] is False


def test_an_answer_does_not_walk_the_objects_of_all_sessions():
    """Streamlit's own default does, after each run of a script: with thirty tabs that took as long as a step."""
    assert tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["runner"]["postScriptGC"] is False
    assert st.config.get_option("runner.postScriptGC") is False, "the option is still there, and is read"
