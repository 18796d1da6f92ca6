"""The batch run of one session: at most one at a time, its steps in the engine's thread, its memory counted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.batching.message import encode_batch, measured_bytes, step_entry
from miniinfer.trace.batch.run import BatchRun
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings
from miniinfer.trace.batch.tally import BatchTally
from miniinfer.trace.parts import Parts
from miniinfer.ui.batching.ask import BatchAsk
from miniinfer.ui.batching.keep import BatchKeeper
from miniinfer.ui.tokens import describe_token, encode_prompt

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.trace.batch.records import BatchStep, BatchTrace
    from miniinfer.ui.sessions.session import Session

BATCH_KV_BYTES = 256 * 2**20  # the most KV cache that one batch may take, beside that of the session's runs
STEPPING_SECONDS = 0.15
NO_MODEL = "A batch can start once a model is loaded; how far it is stands at the top."
FULL = "The records of this batch have filled the memory of this tab: start a new batch to go on."

T = TypeVar("T")


class SessionBatch:
    """Guarded by its own lock, so that a step of a batch and one of a run do not wait for each other's pages."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.lock = threading.RLock()
        self.run: BatchRun | None = None
        self.name = ""
        self.device = ""
        self.number = 0
        self.error: str | None = None
        self.lent = False  # it was given up for others, and nobody has been told yet
        self.keep = BatchKeeper(session)
        self.resume = 0  # the step that it had come to before its tab was loaded anew
        self.abort_again: dict[str, int] = {}  # after which step these were aborted then
        self._tally: BatchTally | None = None
        self._entries: list[dict[str, Any]] = []
        self._charged = 0

    @property
    def run_id(self) -> str:
        """Never the same in two sessions: a tab that comes back after a lost connection still knows an older one."""
        return f"{self._session.session_id[:8]}.{self.number}"

    @property
    def trace(self) -> BatchTrace | None:
        with self.lock:
            return self._in_engine(lambda run: run.trace) if self.run is not None else None

    def start(
        self, requests: Sequence[BatchRequest], settings: BatchSettings, name: str, *, resume: int = 0,
        aborted: Mapping[str, int] | None = None,
    ) -> None:
        """Let the old batch go and make a new one; no step is run. Raises MiniInferError, and the old one stays.

        resume: the browser will ask for this step by itself, for the batch had come so far before. aborted: the
        requests that were ended then, after which step; they will be again.
        """
        with self.lock:
            model = self.model()
            made = self._session.in_engine(lambda: self.make(model, requests, settings))
            self.release()
            if self._session.closed:  # in the meantime; nobody would give its blocks back
                self._session.in_engine(made.release)
                raise BadInputError(NO_MODEL)
            self.run, self.name, self.device = made, name, model.device.upper()
            self._tally = BatchTally(made.requests, tuple(made.refused), made.engine.kv_cache.block_bytes)
            self.number += 1
            self.resume, self.abort_again = resume, dict(aborted or {})
            self._in_engine(self._abort_as_before)
            self.keep.changed()

    def _abort_as_before(self, run: BatchRun) -> None:
        for name in [name for name, step in self.abort_again.items() if step == len(run.steps)]:
            del self.abort_again[name]
            run.abort(name)

    def model(self) -> LoadedModel:
        """The session's model. Raises BadInputError if there is none, or the tab has been closed."""
        model = self._session.model
        if model is None or self._session.closed:
            raise BadInputError(NO_MODEL)
        return model

    def make(self, model: LoadedModel, requests: Sequence[BatchRequest], settings: BatchSettings) -> BatchRun:
        """A batch run of this model, in the engine's thread. Raises BadInputError for what is too large here."""
        hosting = self._session.host.hosting
        most_step, most_kv = hosting.max_step_tokens, min(BATCH_KV_BYTES, hosting.session_kv_bytes)
        if most_step is not None and settings.token_budget > most_step:
            raise BadInputError(
                f"A step of a batch has at most {most_step:,} tokens on this server, for others wait: give it a token "
                f"budget of at most {most_step:,}, not {settings.token_budget:,}."
            )

        def encode(request: BatchRequest) -> list[int]:
            return encode_prompt(model, request.prompt, chat=request.chat, most=hosting.max_prompt_tokens)

        run = BatchRun(model, requests, settings, encode=encode, describe=lambda i: describe_token(model, i))
        wanted, most = run.num_blocks * run.trace.block_bytes, most_kv // run.trace.block_bytes
        if wanted > most_kv:
            run.release()
            raise BadInputError(
                f"A pool of {run.num_blocks:,} blocks of {settings.block_size} positions takes "
                f"{wanted / 2**20:,.0f} MiB of KV cache; a batch may have {most_kv // 2**20} MiB: give it at "
                f"most {most:,} blocks."
            )
        return run

    def step_to(self, want: int, seconds: float = STEPPING_SECONDS) -> None:
        """Step until step `want` exists, all requests are done, or the time is over."""
        with self.lock:
            end = time.monotonic() + seconds
            while self.run is not None and len(self._entries) < want and time.monotonic() < end:
                if not self._session.in_engine_in_parts(partial(self._step, self.run)):
                    break
            self.keep.changed()
            self._session.host.sessions.make_room(self._session)

    def finish(self) -> None:
        """Step to the end."""
        self.step_to(10**9, math.inf)

    def _step(self, run: BatchRun) -> Parts[bool]:
        if self._session.closed or not (yield from run.step_in_parts()):
            return False
        step = run.steps[-1]
        assert self._tally is not None
        self._entries.append(step_entry(run.trace, step, self._tally.add(step)))
        try:
            self._charged += self.charge(step, FULL)
        except MiniInferError:
            run.release()
            raise
        self._abort_as_before(run)
        return True

    def charge(self, step: BatchStep, otherwise: str) -> int:
        """Count the record of a step in the session's memory, in the engine's thread: its bytes, for `give_back`.
        Raises MiniInferError with the sentence `otherwise` if there is no room."""
        nbytes = measured_bytes(step)
        if not self._session.budget.charge(nbytes):
            raise MiniInferError(otherwise)
        return nbytes

    def give_back(self, nbytes: int) -> None:
        """These records are gone, in the engine's thread."""
        self._session.budget.charge(-nbytes)

    def abort(self, request_id: str) -> None:
        """End one request. Raises BadInputError if there is no such request, or no batch."""
        with self.lock:
            if self.run is None:
                raise BadInputError("There is no batch to end a request of.")
            self._in_engine(lambda run: run.abort(request_id))
            self.keep.changed()

    def message(self, ask: int, have: int) -> bytes | None:
        """What the browser lacks, as docs/batching-message.md describes it; None without a batch."""
        with self.lock:
            if self.run is None:
                return None
            trace = self._in_engine(lambda run: run.trace)
            return encode_batch(
                trace, self.run_id, self.name, self._entries, device=self.device, ask=ask,
                have=min(have, len(self._entries)), resume=self.resume, error=self.error,
            )  # fmt: skip

    def handle(self, ask: BatchAsk) -> None:
        """Do what the browser asked; an error becomes a sentence in the next message."""
        with self.lock:
            self.error = None
            if ask.run_id != self.run_id or self.run is None:
                return
            try:
                if ask.abort is not None and ask.abort < len(self.run.requests):
                    self.abort(self.run.requests[ask.abort].request_id)
                if ask.want is not None:
                    self.step_to(ask.want, STEPPING_SECONDS)
            except MiniInferError as error:
                self.error = str(error)

    def give_up(self) -> bool:
        """The same, for another session that needs the memory, with a sentence. False if it is in use right now."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self.run is not None:
                self.keep.returning = self.keep.as_it_stands()
                self.release()
                self.lent = True
            return True
        finally:
            self.lock.release()

    def release(self) -> None:
        """Give back blocks, records and what they were charged."""
        with self.lock:
            if self.run is None:
                return
            run, charged = self.run, self._charged

            def release() -> None:
                run.release()
                self.give_back(charged)

            # Not as this tab's own wish: another tab may ask for it, which has a place in the queue of its own.
            self._session.host.worker.call(release, key=self._session.session_id)
            self.run = None
            self._entries = []
            self._charged = 0

    def _in_engine(self, job: Callable[[BatchRun], T]) -> T:
        run = self.run
        assert run is not None
        return self._session.in_engine(lambda: job(run))
