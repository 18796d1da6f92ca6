"""The models of this process: loaded once, in the background, shared by every session and never written.

Nothing here imports torch until the first model is asked for, so that the page draws first.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from miniinfer.errors import BadInputError, FetchError, MiniInferError, ModelFileError, NoMemoryError
from miniinfer.models.file_state import file_state
from miniinfer.models.registry import MODELS
from miniinfer.ui.hosting.hosting import Hosting, get_hosting
from miniinfer.ui.sessions.garbage import collect_now_and_then, no_garbage_meanwhile
from miniinfer.ui.sessions.open_sessions import OpenSessions
from miniinfer.ui.sessions.page_first import PAGE_FIRST, SWITCH_SECONDS

if TYPE_CHECKING:
    from miniinfer.engine.worker import EngineWorker
    from miniinfer.models.loader import LoadedModel

FIRST_PAGE_SECONDS = 1.0

_log = logging.getLogger("miniinfer.models")


@dataclass(frozen=True)
class ModelKey:
    """Which model, where and how: source None is the default model."""

    source: str | None = None
    device: str = "auto"
    dtype: str = "float32"


@dataclass(frozen=True)
class ModelStatus:
    """How far a model is. progress: 0 to 1, None where it cannot be known."""

    state: Literal["waiting", "loading", "ready", "failed"]
    text: str
    progress: float | None = None

    def to_json(self) -> dict[str, Any]:
        state = "loading" if self.state == "waiting" else self.state
        return {"state": state, "text": self.text, "progress": self.progress}


class ModelHost:
    """Loads each model once however many sessions ask, and drops it when the last session that uses it has gone."""

    def __init__(self, hosting: Hosting | None = None) -> None:
        """hosting: for whom the process runs; the own machine alone if left out."""
        self.hosting = hosting or Hosting()
        self.sessions = OpenSessions(self.hosting.memory_bytes, self.hosting.max_sessions)
        self._lock = threading.Lock()
        self._status: dict[ModelKey, ModelStatus] = {}
        self._models: dict[ModelKey, LoadedModel] = {}
        self._alive: weakref.WeakValueDictionary[ModelKey, LoadedModel] = weakref.WeakValueDictionary()
        self._users: dict[ModelKey, set[str]] = {}
        self._loading = threading.Lock()  # one at a time: two loads at once would only share the same two cores
        self._worker: EngineWorker | None = None
        self._early = False  # loading began before anybody asked
        self.num_loads = 0
        self.device_lost = False  # it stopped in the middle of a step, and no step has been made since

    @property
    def worker(self) -> EngineWorker:
        """The one thread in which all model work of this process runs."""
        with self._lock:
            if self._worker is None:
                from miniinfer.engine.worker import EngineWorker

                self._worker = EngineWorker()
            return self._worker

    @property
    def default_key(self) -> ModelKey:
        """What a new session begins with."""
        return ModelKey(device=self.hosting.device, dtype=self.hosting.dtype)

    def check_source(self, key: ModelKey) -> None:
        """Raises BadInputError for a file, where whoever hosts the app does not let files be named. Nothing is asked of
        the file system: whether a file is there is nobody's business either."""
        if not self.hosting.local_paths and key.source is not None and key.source not in MODELS:
            raise BadInputError(f"On this server only {' or '.join(MODELS)} can be used, not a file of the server's.")

    @property
    def queue_length(self) -> int:
        """Jobs that wait for the engine thread."""
        worker = self._worker
        return worker.num_waiting if worker is not None else 0

    @property
    def num_models(self) -> int:
        """Models in memory that sessions can choose at once."""
        with self._lock:
            return len(self._models)

    def request(self, key: ModelKey, session_id: str) -> None:
        """Say that a session wants this model; starts loading it if nobody did, or again if it had failed.

        A model that was dropped here while runs still use it is not loaded a second time beside them.
        """
        with self._lock:
            for other, users in self._users.items():
                if other != key:
                    users.discard(session_id)
            self._users.setdefault(key, set()).add(session_id)
            self._forget_replaced(key)
            if key not in self._models and (model := self._alive.get(key)) is not None:
                self._set_ready(key, model)
            there = key in self._models
            if not there:
                if key in self._status and self._status[key].state in ("waiting", "loading"):
                    return
                self._status[key] = ModelStatus("waiting", "Waiting to load the model.")
        if there:
            self._drop_unused(keep=key)
        else:
            threading.Thread(target=self._load, args=(key,), name="model-loader", daemon=True).start()

    def _forget_replaced(self, key: ModelKey) -> None:
        """Whoever asks for a model wants the file as it is now; runs that use the one in memory keep it. Called with
        the lock held."""
        known = self._models.get(key) or self._alive.get(key)
        if known is not None and known.file_state and known.file_state != file_state(known.source):
            self._models.pop(key, None)
            self._alive.pop(key, None)
            self._status.pop(key, None)

    def load_early(self) -> threading.Thread | None:
        """Begin to load the default model before anybody asks; the thread that does, None if it is not needed."""
        key = self.default_key
        with self._lock:
            if key in self._status:
                return None
            self._status[key] = ModelStatus("waiting", "Waiting to load the model.")
            self._early = True
        thread = threading.Thread(target=self._load, args=(key,), name="model-loader", daemon=True)
        thread.start()
        return thread

    def release(self, session_id: str) -> None:
        """A session has gone: models that nobody uses are dropped, but for one, which the next visitor likely wants."""
        with self._lock:
            for users in self._users.values():
                users.discard(session_id)
        self._drop_unused()

    def status(self, key: ModelKey) -> ModelStatus:
        with self._lock:
            return self._status.get(key, ModelStatus("waiting", "Waiting to load the model."))

    def get(self, key: ModelKey) -> LoadedModel | None:
        with self._lock:
            return self._models.get(key)

    def _load(self, key: ModelKey) -> None:
        with self._loading:
            self._set(key, ModelStatus("loading", "Starting the engine.", None))
            try:
                self._import_torch()
                from miniinfer.models.loader import load_model
                from miniinfer.native.choose import NATIVE, choose_backend

                self._drop_unused(keep=key)
                model = load_model(
                    key.source, device=key.device, dtype=key.dtype, progress=self._progress(key),
                    choose_backend=partial(choose_backend, "auto"),
                )
                NATIVE.look()
                self._warm_up(model)
            except MiniInferError as error:
                of_files = isinstance(error, ModelFileError | FetchError)
                self._set(key, ModelStatus("failed", self._said(str(error)) if of_files else str(error)))
                return
            except Exception as error:
                from miniinfer.engine.machine_faults import machine_fault

                text = f"The model could not be loaded ({type(error).__name__}: {error})."
                if no_memory := isinstance(fault := machine_fault(error), NoMemoryError):
                    text = "This machine has too little free memory for this model: choose packed, or a smaller one."
                elif fault is not None:
                    text = str(fault)
                self._set(key, ModelStatus("failed", text if no_memory else self._said(text)))
                if no_memory:
                    return
                raise
            with self._lock:
                self._set_ready(key, model)
                self.num_loads += 1
            if model.conversion is not None:
                model.conversion.keep_in_background()
            del model
            self._drop_unused()  # while it was being loaded, its user may have chosen another one
            # What lives for ever need not be walked each time that garbage is collected.
            gc.collect()
            gc.freeze()
            NATIVE.start()  # the first time on this machine: engines that are made later take what it gives

    def _import_torch(self) -> None:
        """The first page goes first; where nothing tells how far it is (`streamlit run app.py`), it gets a second."""
        sys.setswitchinterval(SWITCH_SECONDS)
        if not self.num_loads and not self._early and not PAGE_FIRST.is_told:
            time.sleep(FIRST_PAGE_SECONDS)
        if "torch" not in sys.modules:
            from miniinfer.engine.threads import configure

            configure()
            with PAGE_FIRST.before_imports(), no_garbage_meanwhile():
                import torch  # noqa: F401 - the longest of what loading a model needs

    def _said(self, reason: str) -> str:
        """Where strangers read it, the reason stands in the log alone: it may name files of this machine."""
        if self.hosting.local_paths:
            return reason
        _log.warning("model failed: %s", json.dumps(reason))
        return "The model could not be loaded on this server: its log says why to whoever hosts it."

    def _warm_up(self, model: LoadedModel) -> None:
        """One short run, thrown away: the first products of a process pay for thread pools and kernels."""
        from miniinfer.config import EngineConfig, SamplingParams
        from miniinfer.engine.engine import Engine

        def run() -> None:
            engine = Engine(model, EngineConfig(max_num_batched_tokens=64))
            engine.add_request([0, 0, 0, 0], SamplingParams(max_new_tokens=2))
            while engine.step() is not None:
                pass

        self.worker.call(run)

    def _progress(self, key: ModelKey) -> Callable[[str, float | None], None]:
        def show(text: str, fraction: float | None = None) -> None:
            self._set(key, ModelStatus("loading", text, fraction))
            PAGE_FIRST.wait()

        return show

    def _set(self, key: ModelKey, status: ModelStatus) -> None:
        with self._lock:
            self._status[key] = status

    def _set_ready(self, key: ModelKey, model: LoadedModel) -> None:
        """Called with the lock held."""
        self._models[key] = self._alive[key] = model
        self._status[key] = ModelStatus("ready", f"{model.name} is ready.", 1.0)

    def _drop_unused(self, keep: ModelKey | None = None) -> None:
        """Without `keep`, the newest model stays although nobody uses any."""
        with self._lock:
            unused = [k for k in self._models if not self._users.get(k) and k != keep]
            if len(unused) == len(self._models) and keep is None:
                unused = unused[:-1]
            for key in unused:
                del self._models[key], self._status[key]
        if unused:
            gc.unfreeze()
            gc.collect()
            gc.freeze()


@st.cache_resource(show_spinner=False)
def get_host() -> ModelHost:
    """The host of this process."""
    host = ModelHost(get_hosting())
    collect_now_and_then(host.sessions)
    return host


__all__ = ["ModelHost", "ModelKey", "ModelStatus", "get_host"]
