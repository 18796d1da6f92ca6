"""What is different on a server that others can reach: limits, files, the door. Each is said in one sentence."""

import json
import logging
import math
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.figures.workspace import Selection
from miniinfer.hosting import Hosting, guarded
from miniinfer.store.saved_run import SavedModel
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.ui.ask import Ask
from miniinfer.ui.hosting import hosting as hosting_module
from miniinfer.ui.hosting.health import health_of
from miniinfer.ui.hosting.hosting import why_closed
from miniinfer.ui.saving.saved_runs import SavedRuns
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey
from miniinfer.ui.sessions.open_sessions import OpenSessions
from miniinfer.ui.sessions.session import Session
from tests.ui import asynchronous

SHORT = SamplingParams(max_new_tokens=3)
LONG = SamplingParams(temperature=0, max_new_tokens=80)


@pytest.fixture
def hosted(host, monkeypatch):
    """Makes the one host that has the model serve a class."""

    def change(**limits):
        made = guarded("verifier") if not limits else Hosting(**limits)
        monkeypatch.setattr(host, "hosting", made)
        monkeypatch.setattr(host.sessions, "max_sessions", made.max_sessions)
        return made

    return change


def test_a_prompt_that_is_too_long_is_refused_wherever_it_is_given(hosted, session):
    hosted(max_prompt_tokens=4)
    with pytest.raises(BadInputError, match=r"The prompt has 6 tokens, and on this server it may have 4: shorten it\."):
        session.new_run("one two three four five six", SHORT, chat=False, one_pass=True)
    session.new_run("one two three four", SHORT, chat=False, one_pass=True)


def test_a_long_prompt_takes_turns_in_steps_of_the_allowed_length(hosted, new_session):
    hosted(max_step_tokens=4)
    session = new_session()
    session.new_run("one two three four five six", SHORT, chat=False, one_pass=True)
    session.step_to(3, math.inf)
    assert [(step.phase, step.num_scheduled) for step in session.timeline.current.steps] == [
        ("prefill", 4), ("prefill", 2), ("decode", 1),
    ]  # fmt: skip
    before = [t.token_id for t in session.timeline.current.tokens]
    session.give_up_memory()
    session.message(Selection(details=(3,)))
    assert [t.token_id for t in session.timeline.current.tokens] == before, "what sleeps is computed in parts as well"
    assert not session.timeline.current.asleep


def test_files_of_the_server_cannot_be_named(hosted, session):
    hosted(local_paths=False)
    with pytest.raises(BadInputError, match="only SmolLM2-135M-Instruct can be used"):
        session.choose_model(ModelKey("/etc/passwd"))
    assert session.key == ModelKey()
    session.choose_model(ModelKey(dtype="float32"))
    with patch("miniinfer.ui.saving.keeper.check_model_file") as looked:
        session.keeper.waiting["r9"] = SimpleNamespace(model=SavedModel("x", "/etc/passwd", "auto", "float32", 5))
        session.handle(Ask(1, open="r9"))
    assert "only SmolLM2-135M-Instruct can be used" in session.error
    assert not looked.called, "not even whether it is there"
    session.keeper.waiting.clear()


def test_a_step_of_a_batch_has_no_more_tokens_than_one_of_a_run(hosted, session):
    hosted(max_step_tokens=64, session_kv_bytes=4 * 2**20)
    asked = [BatchRequest("a", "word " * 60, params=SHORT)]
    with pytest.raises(BadInputError, match=r"at most 64 tokens on this server.* at most 64, not 256"):
        session.batch.start(asked, BatchSettings(), "one")
    with pytest.raises(BadInputError, match="a batch may have 4 MiB"):
        session.batch.start(asked, BatchSettings(token_budget=64, num_blocks=10_000), "one")
    session.batch.start(asked, BatchSettings(token_budget=64), "one")


def test_a_full_cache_puts_older_runs_aside_and_says_so_when_none_is_left(hosted, host, saved_runs):
    hosted(session_kv_bytes=2 * 2**20, pool_growth=16)  # blocks of 0.7 MB: two
    session = Session(host, saved_runs)
    session.go_live()
    session.step_to(2, math.inf)
    first = [token.token_id for token in session.timeline.current.tokens]
    session.new_run("Two", LONG, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    session.new_run("Three", LONG, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    assert [run.info.run_id for run in session.timeline] == ["r2", "r3"], "the oldest is put aside"
    session.handle(Ask(1, open="r1"))
    assert (session.error, [t.token_id for t in session.timeline.current.tokens]) == (None, first)
    assert [run.info.run_id for run in session.timeline] == ["r3", "r1"], "and comes back as another goes"
    session.handle(Ask(2, open="r3"))
    session.handle(Ask(3, "r3", want=60, cursor=60))
    assert session.error == (
        "The KV cache of this tab is full: 2 MB are the most that it may have here. Start a new run, or open a new "
        "tab; this run stays as it is."
    )
    assert session.timeline.current.seq.num_computed_tokens == 32
    session.new_run("Four", LONG, chat=False, one_pass=True)
    session.step_to(1, math.inf)
    assert len(session.timeline.current.steps) == 1
    session.close()


def test_a_batch_that_steps_is_in_use_and_its_prompts_let_others_through(session):
    session.batch.start([BatchRequest("a", "word " * 60, params=SHORT)], BatchSettings(), "one")
    session.last_used, begun = 0.0, session.host.worker.call
    kinds = []

    def call(work, **options):
        kinds.append(isinstance(found := begun(work, **options), bool))
        return found

    with patch.object(session.host.worker, "call_in_parts", call):
        session.batch.step_to(1, math.inf)
    assert kinds == [True], "a step is a job in parts"
    assert session.last_used > 0


def test_a_full_server_says_so_and_a_place_that_was_left_is_free(hosted, host, new_session, monkeypatch):
    monkeypatch.setattr(host, "sessions", OpenSessions(host.hosting.memory_bytes))  # without those of other tests
    hosted(max_sessions=2)
    first, _ = new_session(), new_session()
    with pytest.raises(BadInputError, match="All 2 places of this server are taken"):
        new_session()
    first.leaving = True  # it reloads: the old one is not closed yet
    new_session()
    first.close()
    with pytest.raises(BadInputError):
        new_session()


def test_who_has_saved_enough_goes_on_unsaved_and_the_others_save(hosted, host, saved_runs):
    hosted(max_saved_bytes=1)
    full, other = Session(host, saved_runs), Session(host, saved_runs)
    full.go_live()
    full.new_run("first", SHORT, chat=False, one_pass=True)
    full.step_to(2, math.inf)
    saved_runs.flush()
    full.new_run("second", SHORT, chat=False, one_pass=True)
    full.step_to(2, math.inf)
    other.go_live()
    other.step_to(2, math.inf)
    lines = []
    saved_runs.ask(lambda store: lines.extend((line.session, line.run_id) for line in store.lines()))
    assert sorted(lines) == sorted([(full.keeper.token, "r2"), (other.keeper.token, "r1")])
    assert "This run is not saved" in full.keeper.problem
    assert "for good" in full.keeper.problem
    assert other.keeper.problem is None
    full.timeline.open("r2")
    assert full.keeper.problem is None, "this one is"
    full.close()
    other.close()


def test_visitors_do_not_read_where_the_file_lies(host, tmp_path):
    (tmp_path / "secret").write_text("")
    session = Session(host, SavedRuns(lambda: tmp_path / "secret" / "runs.sqlite3", shared=True))
    session.go_live()
    session.step_to(2, math.inf)
    assert session.keeper.problem.startswith("The saved runs of this server: ")
    assert "secret" not in session.keeper.problem
    session.close()


def test_a_new_tab_begins_with_the_precision_that_the_host_chose(monkeypatch):
    host = ModelHost(Hosting(device="cpu", dtype="packed"))
    monkeypatch.setattr(host, "request", lambda key, session_id: None)
    assert Session(host).key == ModelKey(None, "cpu", "packed")


# The door


def test_an_address_that_others_reach_is_closed_without_a_guard(monkeypatch):
    option, settings = {"server.address": "127.0.0.1"}, Hosting()
    monkeypatch.setattr(hosting_module, "get_hosting", lambda: settings)
    monkeypatch.setattr(hosting_module.st, "get_option", option.__getitem__)
    monkeypatch.setattr(hosting_module, "_gate", False)
    assert why_closed() is None
    for address in ("0.0.0.0", None, "192.168.0.2"):
        option["server.address"] = address
        assert "--allow-host NAME" in why_closed()
    settings = guarded("verifier")
    assert "guard is missing" in why_closed()
    hosting_module.gate_stands()
    assert why_closed() is None


def test_a_closed_door_is_all_there_is_on_the_page(open_app, monkeypatch):
    monkeypatch.setattr("miniinfer.ui.hosting.door.why_closed", lambda: "Closed: ask whoever hosts it.")
    app = open_app().run()
    assert app.texts() == ["Closed: ask whoever hosts it."]
    assert app.components == set()


def test_the_side_panel_and_the_tokenizer_page_offer_no_path(hosted, open_app):
    hosted(local_paths=False)
    app = open_app().run()
    assert [box.key for box in app.test.selectbox if box.key == "model_name"] == ["model_name"]
    assert all(field.key != "model_source" for field in app.test.text_input)


# For whoever hosts it


def test_health_counts_and_names_nobody(session):
    session.new_run("a secret prompt", SHORT, chat=False, one_pass=True)
    session.step_to(2, math.inf)
    found = health_of(session.host, 12.34)
    assert (found["status"], found["model"]["state"], found["queue"], found["uptime_s"]) == ("ok", "ready", 0, 12.3)
    assert found["sessions"]["open"] == len(session.host.sessions) >= 1
    assert found["memory"]["sessions_bytes"] == session.host.sessions.used_bytes() >= session.memory_bytes() > 0
    assert found["memory"]["process_bytes"] > found["memory"]["sessions_bytes"]
    text = json.dumps(found)
    assert "secret" not in text
    assert session.session_id[:8] not in text
    assert session.keeper.token not in text


def test_health_says_that_the_device_stopped_until_a_step_is_made_again(session, monkeypatch):
    from miniinfer.engine import driver

    real, lost = driver.run_stages, RuntimeError("CUDA error: device-side assert triggered")
    monkeypatch.setattr("miniinfer.engine.engine.run_stages", lambda *a, **k: (_ for _ in ()).throw(lost))
    session.handle(Ask(1, "r1", want=2, cursor=2))
    assert "device stopped" in session.error
    found = health_of(session.host, 1.0)
    assert (found["status"], found["device"]) == ("failed", "lost")
    monkeypatch.setattr("miniinfer.engine.engine.run_stages", real)
    session.handle(Ask(2, "r1", want=2, cursor=2))
    found = health_of(session.host, 1.0, saving=False)
    assert (found["status"], found["device"], found["saving"]) == ("ok", "ok", "failing"), "everything else goes on"


def test_what_is_wrong_with_a_model_stands_in_the_log_and_visitors_read_what_they_chose_wrongly(monkeypatch, caplog):
    host, fails = ModelHost(guarded("verifier")), []
    monkeypatch.setattr("miniinfer.models.loader.load_model", lambda *args, **kwargs: (_ for _ in ()).throw(fails[-1]))
    said = []
    for error in (ModelFileError("/home/somebody/a.gguf is\ncut."), BadInputError("There is no CUDA device here.")):
        fails.append(error)
        host._load(ModelKey())
        said.append(host.status(ModelKey()).text)
    assert said == [
        "The model could not be loaded on this server: its log says why to whoever hosts it.",
        "There is no CUDA device here.",
    ]
    assert [record.getMessage() for record in caplog.records] == ['model failed: "/home/somebody/a.gguf is\\ncut."']


def test_health_says_when_the_model_failed_without_saying_where_it_lies(monkeypatch):
    from miniinfer.ui.hosting import serving

    def fail(*args, **kwargs):
        raise BadInputError("/home/somebody/model.gguf is damaged.")

    monkeypatch.setattr("miniinfer.models.loader.load_model", fail)
    host = ModelHost()
    monkeypatch.setattr(serving, "get_host", lambda: host)
    host._load(ModelKey())
    answer = asynchronous.run(serving._health(None))
    assert answer.status_code == 503
    assert json.loads(answer.body)["status"] == "failed"
    assert b"somebody" not in answer.body
    host._worker = None


def test_the_log_has_one_line_an_event_and_text_only_when_asked(hosted, session, caplog):
    caplog.set_level(logging.INFO, logger="miniinfer.runs")
    hosted(log_text=False)
    session.new_run("a secret\nprompt", SHORT, chat=False, one_pass=True)
    session.step_to(1, math.inf)
    session.give_up_memory()
    session.step_to(3, math.inf)
    lines = [record.getMessage() for record in caplog.records]
    head = f"session={session.session_id[:8]} run="
    assert [line.split("ms=")[0].strip() for line in lines] == [
        head + "r2 event=new", head + "r2 event=step step=1", head + "- event=asleep runs=2",
        head + "r2 event=awake step=1", head + "r2 event=finished step=3",
    ]  # fmt: skip
    assert "secret" not in "".join(lines)
    hosted(log_text=True)
    session.new_run("a secret\nprompt", SHORT, chat=False, one_pass=True)
    assert caplog.records[-1].getMessage() == head + 'r3 event=new text="a secret\\nprompt"'
