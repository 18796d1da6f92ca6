"""One user's session: its runs, its engine, its cursor. All model work goes through the host's engine thread."""

from __future__ import annotations

import functools
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.transport import transport_data
from miniinfer.figures.workspace import Selection, Surroundings, encode, run_entry
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.continuation import force_tokens
from miniinfer.trace.file_format import load_trace
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.recorded_run import RecordedRun
from miniinfer.trace.run import Edit, ForceToken, Run
from miniinfer.trace.timeline import Timeline
from miniinfer.ui.ask import Ask
from miniinfer.ui.batching_host import SessionBatch
from miniinfer.ui.engine_config import config_for
from miniinfer.ui.inside_hold import InsideHold
from miniinfer.ui.model_host import ModelHost, ModelKey, ModelStatus, get_host
from miniinfer.ui.run_facts import branch_name, run_info, short_name
from miniinfer.ui.tokens import describe_token, encode_prompt

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.models.loader import LoadedModel

EXAMPLE = Path(__file__).parents[1] / "trace" / "examples" / "france.npz"
CLOSED = "This tab lost its connection to the app, and its runs were cleared: reload the page to go on."
MAX_RUNS = 12  # old runs beyond this are let go, oldest first, so that a session's memory has an end
STEPPING_SECONDS = 0.15  # a request for many steps answers at least this often; the browser asks again for the rest

T = TypeVar("T")


class Session:
    """Guarded by its own lock: two script threads of one browser tab may meet in it."""

    def __init__(self, host: ModelHost) -> None:
        self.session_id = uuid.uuid4().hex
        self.host = host
        self.lock = threading.RLock()
        self.key = ModelKey()
        self.timeline = Timeline()
        self.budget = TraceBudget()
        self.batch = SessionBatch(self)
        self.block_size = EngineConfig().block_size
        self.error: str | None = None
        self._engine: Engine | None = None
        self._requested: ModelKey | None = None
        self.closed = False
        self.inside = InsideHold(self)
        self.timeline.add(recorded_example(), cursor=1)  # something to look at: its first step

    # The model

    @property
    def model(self) -> LoadedModel | None:
        return self.host.get(self.key)

    @property
    def status(self) -> ModelStatus:
        return self.host.status(self.key)

    def request_model(self) -> None:
        """Ask for the chosen model, once: a load that failed is tried again when the user says so, not on reruns."""
        with self.lock:
            if self._requested != self.key and not self.closed:
                self._requested = self.key
                self.host.request(self.key, self.session_id)

    def choose_model(self, key: ModelKey) -> None:
        """Takes effect with the next new run; runs that exist keep the model they were made with."""
        with self.lock:
            if key != self.key:
                self.batch.release()  # a new one starts on the new model
            self.key, self._requested = key, None
            self.request_model()

    def choose_block_size(self, block_size: int) -> None:
        """Takes effect with the next new run, in a pool of its own; runs that exist and their branches keep theirs."""
        with self.lock:
            self.block_size = EngineConfig(block_size=block_size).block_size

    def held_models(self) -> dict[str, int]:
        """Models that earlier runs keep in memory beside the chosen one: "name · device · dtype" -> weight bytes."""
        with self.lock:
            infos = [run.info for run in self._other_models_runs()]
            return {f"{i.model_name} · {i.device.upper()} · {i.dtype}": i.weight_bytes for i in infos}

    def drop_runs_of_other_models(self) -> int:
        """Let those runs go, and with the last of them their models; the run in view stays. How many went."""
        with self.lock:
            going = [run for run in self._other_models_runs() if run is not self.timeline.current]
            self._release([self.timeline.remove(run.info.run_id) for run in going])
            return len(going)

    def _other_models_runs(self) -> list[LiveRun]:
        live = [run for run in self.timeline if isinstance(run, LiveRun)]
        return [run for run in live if run.engine.model is not self.model]

    # Runs

    def new_run(self, prompt: str, params: SamplingParams, *, chat: bool, one_pass: bool) -> None:
        """Make a run of the prompt and look at its beginning. Raises MiniInferError; other runs stay as they are."""
        with self.lock:
            model = self.model
            if self.closed:
                raise BadInputError(CLOSED)
            if model is None:
                raise BadInputError("A run can start once a model is loaded; how far it is stands under Model.")
            ids = encode_prompt(model, prompt, chat=chat)
            self.inside.leave()
            run = self._in_engine(lambda: self._make_run(model, prompt, ids, params, chat, one_pass))
            self.timeline.add(run)
            self._let_old_runs_go()

    def _make_run(
        self, model: LoadedModel, prompt: str, ids: list[int], params: SamplingParams, chat: bool, one_pass: bool
    ) -> LiveRun:
        engine = self._engine_for(model)
        run_id = self.timeline.new_id()
        seq = engine.add_request(ids, params, seq_id=run_id, prefill_chunk=None if one_pass else 1)
        info = run_info(engine, model, run_id, prompt, len(ids), params, chat=chat, one_pass=one_pass)
        return LiveRun(engine, seq, info, lambda i: describe_token(model, i), self.budget)

    def _engine_for(self, model: LoadedModel) -> Engine:
        from miniinfer.engine.engine import Engine

        config = config_for(model, self.block_size)
        if self._engine is None or self._engine.model is not model or self._engine.config != config:
            self._engine = Engine(model, config)
        return self._engine

    def branch(self, edit: Edit) -> None:
        """A branch of the current run becomes current, at the step that was edited."""
        with self.lock:
            run = self._trunk()
            run_id = self.timeline.new_id()
            branch = self._in_engine(lambda: run.fork(edit, run_id, branch_name(run, edit)))
            self.timeline.add(branch, cursor=edit.step)
            self._let_old_runs_go()

    def continue_with(self, step: int, token_ids: list[int], name: str) -> None:
        """A branch in which step `step` and those after it take these tokens; it becomes current, at its last step."""
        with self.lock:
            run = self._trunk()
            run_id = self.timeline.new_id()
            branch = self._in_engine(lambda: force_tokens(run, step, token_ids, run_id, name))
            self.timeline.add(branch, cursor=len(branch.steps))
            self._let_old_runs_go()

    def rename(self, run_id: str, name: str) -> None:
        """Give a live run a name of the user's, in one line."""
        with self.lock:
            run = self.timeline.get(run_id)
            if isinstance(run, LiveRun) and short_name(name):
                run.info = replace(run.info, name=short_name(name))

    def _trunk(self) -> LiveRun:
        """The current run, about to branch: a look into one of its steps is over."""
        self.inside.leave()
        run = self.timeline.current
        if not isinstance(run, LiveRun):
            raise BadInputError("A recorded run cannot branch; it goes live as soon as the model is loaded.")
        return run

    def go_live(self) -> bool:
        """Put a live run in the place of the recorded example once the model is there: same prompt, same cursor."""
        with self.lock:
            run, model = self.timeline.current, self.model
            if run is None or run.info.kind != "recorded" or model is None or len(self.timeline) > 1 or self.closed:
                return False
            cursor, info = self.timeline.cursor, run.info
            try:
                self.new_run(info.prompt, info.params, chat=info.chat, one_pass=info.one_pass)
                self.step_to(cursor, math.inf)
            except MiniInferError as error:
                self.error = str(error)
                self.timeline.open(info.run_id)
                return False
            self.timeline.remove(info.run_id)
            return True

    def step_to(self, want: int, seconds: float = STEPPING_SECONDS) -> None:
        """Step the current run until step `want` exists, it finishes, or the time is over; look at what there is."""
        with self.lock:
            run = self.timeline.current
            end = time.monotonic() + seconds
            self.inside.make_room(run, want)
            while isinstance(run, LiveRun) and len(run.records) < want and time.monotonic() < end:
                if not self._in_engine(run.step):
                    break
            self.timeline.cursor = min(want, len(run.steps) if run else 0)

    def handle(self, ask: Ask) -> None:
        """Do what the browser asked. An error becomes a sentence in the next message; nothing is half done."""
        with self.lock:
            self.error = CLOSED if self.closed else None
            try:
                if ask.open is not None:
                    self.timeline.open(ask.open)
                elif ask.run_id is not None and ask.run_id in self.timeline:
                    self.timeline.open(ask.run_id)
                    if ask.force is not None:
                        self.branch(ForceToken(*ask.force))
                        return
                    if ask.want is not None:
                        self.step_to(ask.want)
                    if ask.cursor is not None:
                        self.timeline.cursor = ask.cursor
            except MiniInferError as error:
                self.error = str(error)

    def transport(self, has_driver: bool) -> dict[str, Any]:
        """The transport's data, as figures/transport.py describes it."""
        with self.lock:
            return transport_data(self.timeline, self.status.to_json(), has_driver)

    def message(self, selection: Selection) -> bytes:
        """The workspace's message for the current run, as docs/workspace-message.md describes it."""
        with self.lock:
            run = self.timeline.current
            assert run is not None  # a session always has a run: the recorded example at the least
            around = Surroundings(tuple(run_entry(r) for r in self.timeline), self.status.to_json(), self.error)
            selection = replace(selection, cursor=self.timeline.cursor)
            try:
                return self.look([run], lambda: encode(run, selection, around))
            except MiniInferError as error:  # something that was asked for is gone; the rest of the page is not
                bare = replace(selection, details=(), head=None, exact=None, row=None, probs_from=None)
                shown = replace(around, error=str(error))
                return self.look([run], lambda: encode(run, bare, shown))

    def look(self, runs: Iterable[Run], question: Callable[[], T]) -> T:
        """Ask runs something that may touch tensors: in the engine's thread if one of them is live."""
        with self.lock:
            return self._in_engine(question) if any(isinstance(r, LiveRun) for r in runs) else question()

    def compute(self, job: Callable[[], T]) -> T:
        """Model work that belongs to no run, in the engine's thread. Keep each job short: other tabs wait for it."""
        if self.closed:
            raise BadInputError(CLOSED)
        return self._in_engine(job)

    def _in_engine(self, job: Callable[[], T]) -> T:
        return self.host.worker.call(job, key=self.session_id)

    def _let_old_runs_go(self) -> None:
        while len(self.timeline) > MAX_RUNS:
            oldest = next(iter(self.timeline))
            self._release([self.timeline.remove(oldest.info.run_id)])

    def _release(self, runs: list[Run]) -> None:
        live = [run for run in runs if isinstance(run, LiveRun)]
        if live:
            self.inside.leave()

        def release() -> None:
            for run in live:
                run.release()

        if live:
            self._in_engine(release)

    def close(self) -> None:
        """The browser tab has gone: free blocks, records and the claim on the model.

        A tab that only lost its connection may come back and ask; it finds the example and a sentence.
        """
        with self.lock:
            self.closed, self.error = True, CLOSED
            self._release([self.timeline.remove(run.info.run_id) for run in self.timeline])
            self._engine = None
            self.batch.release()
            self.timeline.add(recorded_example(), cursor=1)
            self.host.release(self.session_id)


@functools.cache
def recorded_example() -> RecordedRun:
    """Read once for all sessions: nothing in it ever changes."""
    return load_trace(EXAMPLE)


def _close_soon(session: Session) -> None:
    """In a thread: closing waits for the step that is running, and Streamlit calls this in its event loop."""
    threading.Thread(target=session.close, name="session-close", daemon=True).start()


@st.cache_resource(scope="session", on_release=_close_soon, show_spinner=False)
def get_session() -> Session:
    """This browser tab's session; Streamlit closes it when the tab disconnects."""
    return Session(get_host())
