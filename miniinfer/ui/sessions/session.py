"""One user's session: its runs, its engine, its cursor. All model work goes through the host's engine thread."""

from __future__ import annotations

import math
import threading
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.continuation import force_tokens
from miniinfer.trace.live_run import DescribeToken, LiveRun
from miniinfer.trace.run import Edit, ForceToken, Run
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.ask import Ask
from miniinfer.ui.batching.host import SessionBatch
from miniinfer.ui.inside.hold import InsideHold
from miniinfer.ui.saving.keeper import RunKeeper
from miniinfer.ui.saving.saved_runs import EXAMPLE_ID, SavedRuns, get_saved_runs
from miniinfer.ui.sessions.end import close_soon
from miniinfer.ui.sessions.engine import CLOSED, SessionEngine
from miniinfer.ui.sessions.memory import MAX_RUNS, SessionMemory, recorded_example
from miniinfer.ui.sessions.model_host import ModelHost, ModelKey, ModelStatus, get_host
from miniinfer.ui.sessions.page_first import PAGE_FIRST
from miniinfer.ui.sessions.queue_place import QueuePlace
from miniinfer.ui.sessions.run_facts import branch_name, leaves, run_info, short_name
from miniinfer.ui.sessions.run_log import log_event
from miniinfer.ui.sessions.view import SessionView
from miniinfer.ui.sessions.waking import Waking
from miniinfer.ui.tokens import describe_token, encode_prompt

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.models.loader import LoadedModel

STEPPING_SECONDS = 0.15  # a request for many steps answers at least this often; the browser asks again for the rest


class Session(SessionEngine, SessionMemory, SessionView):
    """Guarded by its own lock: two script threads of one browser tab may meet in it."""

    def __init__(self, host: ModelHost, saved: SavedRuns | None = None) -> None:
        """saved: where runs are kept; None keeps them in memory alone. Raises BadInputError if the host is full."""
        self.session_id = uuid.uuid4().hex
        self.leaving = self.closed = False  # leaving: its tab has gone, and it is about to be closed
        self.host = host
        self.lock = threading.RLock()
        self.key = host.default_key
        self.timeline = Timeline()
        self.budget = TraceBudget(host.hosting.session_trace_bytes)
        self.batch = SessionBatch(self)
        self.block_size = EngineConfig().block_size
        self.backend = "auto"  # of the next new run
        self.error: str | None = None  # about the last thing that was asked for
        self.note: str | None = None  # what is worth knowing until the run goes on
        self._engine: Engine | None = None
        self._requested: ModelKey | None = None
        self.last_used = time.monotonic()
        self.queue_place = QueuePlace(self)
        self.waking = Waking(self)
        self.keeper = RunKeeper(self, saved)
        self.inside = InsideHold(self)
        self.show_example()
        self.host.sessions.add(self)  # last: from here on others ask what it holds

    # The model

    @property
    def model(self) -> LoadedModel | None:
        return self.host.get(self.key)

    @property
    def status(self) -> ModelStatus:
        return self.host.status(self.key)

    def request_model(self) -> None:
        """Ask for the chosen model, once: a load that failed is tried again when the user says so, not on reruns."""
        PAGE_FIRST.drawn()
        with self.lock:
            if self._requested != self.key and not self.closed:
                self._requested = self.key
                self.host.request(self.key, self.session_id)

    def choose_model(self, key: ModelKey) -> None:
        """Takes effect with the next new run; runs that exist keep the model they were made with."""
        with self.lock:
            self.keeper.give_up()
            self.load_model(key)

    def load_model(self, key: ModelKey) -> None:
        """Raises BadInputError for a file, where whoever hosts the app does not let files be named."""
        self.host.check_source(key)
        with self.lock:
            if key != self.key:
                self.batch.release()  # a new one starts on the new model
            self.key, self._requested = key, None
            self.request_model()

    def choose_block_size(self, block_size: int) -> None:
        """Takes effect with the next new run, in a pool of its own; runs that exist and their branches keep theirs."""
        with self.lock:
            self.block_size = EngineConfig(block_size=block_size).block_size

    # Runs

    def new_run(
        self, prompt: str, params: SamplingParams, *, chat: bool, one_pass: bool, quiet: bool = False
    ) -> None:
        """Make a run of the prompt and look at its beginning. Raises MiniInferError; other runs stay as they are.

        quiet: nobody asked for it, so it is saved when the user does something with it.
        """
        with self.lock:
            model = self.model
            if self.closed:
                raise BadInputError(CLOSED)
            if model is None:
                raise BadInputError("A run can start once a model is loaded; how far it is stands under Model.")
            ids = encode_prompt(model, prompt, chat=chat, most=self.host.hosting.max_prompt_tokens)
            self.inside.leave()
            run = self.in_engine(lambda: self._make_run(model, prompt, ids, params, chat, one_pass))
            self._add(run, model, quiet=quiet)

    def _add(self, run: LiveRun, model: LoadedModel | None = None, *, cursor: int = 0, quiet: bool = False) -> None:
        self.timeline.add(run, cursor=cursor)
        self.note = None
        self.keeper.made(run, model, quiet=quiet)
        self.let_old_runs_go()
        self.host.sessions.make_room(self)
        text = run.info.prompt if self.host.hosting.log_text else None
        log_event(self.session_id, "branch" if run.info.parent else "new", run.info.run_id, text=text)

    def _make_run(
        self, model: LoadedModel, prompt: str, ids: list[int], params: SamplingParams, chat: bool, one_pass: bool
    ) -> LiveRun:
        engine, run_id = self.engine_for(model), self.timeline.new_id()
        seq = engine.add_request(ids, params, seq_id=run_id, prefill_chunk=None if one_pass else 1)
        info = run_info(engine, model, run_id, prompt, len(ids), params, chat=chat, one_pass=one_pass)
        return LiveRun(engine, seq, info, self.describe(model), self.budget)

    def describe(self, model: LoadedModel) -> DescribeToken:
        return lambda token_id: describe_token(model, token_id)

    def branch(self, edit: Edit) -> None:
        """A branch of the current run, or of the trunk that it shares the step with, becomes current, at that step."""
        with self.lock:
            looked, run = self.timeline.current, self._trunk(edit.step)
            work = partial(run.fork, edit, self.timeline.new_id(), branch_name(run, edit))
            branch = self.with_room(lambda: self.in_engine(work), run)
            self._add(branch, cursor=edit.step)
            self.note = leaves(looked, run, edit)

    def continue_with(self, step: int, token_ids: list[int], name: str) -> None:
        """A branch in which step `step` and those after it take these tokens; it becomes current, at its last step."""
        with self.lock:
            looked, run = self.timeline.current, self._trunk(step)
            work = partial(force_tokens, run, step, token_ids, self.timeline.new_id(), name)
            branch = self.with_room(lambda: self.in_engine_in_parts(work), run)
            self._add(branch, cursor=len(branch.steps))
            self.note = leaves(looked, run, ForceToken(step, token_ids[0]))

    def _trunk(self, step: int) -> LiveRun:
        """The run that this step of the current one belongs to, about to branch: a look into a step is over."""
        self.inside.leave()
        run = self.timeline.current and self.timeline.owner_of(self.timeline.current.info.run_id, step)
        if not isinstance(run, LiveRun):
            if run is not None and run.info.run_id == EXAMPLE_ID:
                raise BadInputError("A recorded run cannot branch; it goes live as soon as the model is loaded.")
            raise BadInputError(
                "A recorded run cannot branch: the page Runs can make it live, or start a new run with its prompt in "
                "the side panel."
            )
        self.wake([run])
        return run

    def go_live(self) -> bool:
        """Put a live run in the place of the recorded example once the model is there: same prompt, same cursor."""
        with self.lock:
            run, model = self.timeline.current, self.model
            if self.keeper.bring_back():
                return True
            if self.keeper.wanted is not None:
                return False  # it comes in place of the example as soon as its model is there
            if run is None or run.info.run_id != EXAMPLE_ID or model is None or self.closed:
                return False
            cursor, info = self.timeline.cursor, run.info
            try:
                note = self.note
                self.new_run(info.prompt, info.params, chat=info.chat, one_pass=info.one_pass, quiet=True)
                self.step_to(cursor, math.inf, quiet=cursor <= 1)
                self.note = note
            except MiniInferError as error:
                self.error = str(error)
                self.timeline.open(info.run_id)
                return False
            self.timeline.remove(info.run_id)
            return True

    def open(self, run_id: str) -> None:
        """Look at a run of this session; one that is only saved comes back for it."""
        with self.lock:
            self.note = None
            if run_id in self.timeline:
                self.keeper.view = None
                self.timeline.open(run_id)
            elif run_id in self.keeper.waiting:
                self.keeper.open(run_id)
            else:
                self.timeline.get(run_id)  # raises

    def step_to(self, want: int, seconds: float = STEPPING_SECONDS, *, quiet: bool = False) -> None:
        """Step the current run until step `want` exists, it finishes, or the time is over; look at what there is."""
        with self.lock:
            run, end = self.timeline.current, time.monotonic() + seconds
            before = len(run.steps) if run else 0
            self.inside.make_room(run, want)
            try:
                while isinstance(run, LiveRun) and len(run.records) < want and time.monotonic() < end:
                    if not self.with_room(partial(self.in_engine_in_parts, run.step_in_parts)):
                        break
            finally:  # if a step failed, those before it are there
                self._has_stepped(run, want, before, quiet)

    def _has_stepped(self, run: Run | None, want: int, before: int, quiet: bool) -> None:
        self.timeline.cursor = min(want, len(run.steps) if run else 0)
        if run is not None and len(run.steps) > before and not quiet:
            self.note = None
            self.host.device_lost = False
            self.keeper.changed(run)
            kind, new = "finished" if run.finish_reason else "step", run.steps[-1]
            log_event(self.session_id, kind, run.info.run_id, step=new.step, ms=new.step_ms)

    def handle(self, ask: Ask) -> None:
        """Do what the browser asked. An error becomes a sentence in the next message; nothing is half done."""
        with self.lock:
            self.error, woken = CLOSED if self.closed else None, None
            try:
                if ask.open is not None:
                    self.open(ask.open)
                elif self.keeper.view is not None and ask.run_id == self.keeper.view.info.run_id:
                    self.keeper.look_at_view(self.in_view[1] if ask.cursor is None else ask.cursor)
                elif self.timeline.current is not None and ask.run_id == self.timeline.current.info.run_id:
                    # One that names another run was asked before the browser knew of this one.
                    woken = self.wake_current()
                    if ask.force is not None:
                        self.branch(ForceToken(*ask.force))
                        return
                    if ask.want is not None:
                        self.step_to(ask.want, STEPPING_SECONDS)
                    if ask.cursor is not None and ask.cursor != self.timeline.cursor:
                        self.timeline.cursor = ask.cursor
                        self.keeper.looked_at(self.timeline.current)
            except MiniInferError as error:
                self.error = str(error)
            finally:
                self.note = woken or self.note
                self.host.sessions.make_room(self)

    def close(self) -> None:
        """The browser tab has gone: free blocks, records and the claim on the model.

        A tab that only lost its connection may come back and ask; it finds the example and a sentence.
        """
        with self.lock:
            self.leaving = True
            self.keeper.close()
            self.closed, self.error = True, CLOSED
            self._release([self.timeline.remove(run.info.run_id) for run in self.timeline])
            self._engine = None
            self.batch.release()
            self.show_example()
            self.host.release(self.session_id)
            self.host.sessions.remove(self)
            log_event(self.session_id, "closed")


@st.cache_resource(scope="session", on_release=close_soon, show_spinner=False)
def get_session() -> Session:
    """This browser tab's session; Streamlit closes it when the tab disconnects."""
    return Session(get_host(), get_saved_runs())


__all__ = ["CLOSED", "MAX_RUNS", "Session", "get_session", "recorded_example", "short_name"]
