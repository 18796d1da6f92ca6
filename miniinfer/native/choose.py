"""Which backend an engine gets: torch, native, graph, or whichever is there."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from miniinfer.config import BACKENDS
from miniinfer.errors import BadInputError
from miniinfer.native.build import BackgroundBuild
from miniinfer.native.library import NativeError

if TYPE_CHECKING:
    from miniinfer.engine.backend import Backend
    from miniinfer.engine.weights import Weights
    from miniinfer.native.backend import NativeBackend

log = logging.getLogger(__name__)
SWITCH = "MINIINFER_NATIVE"  # 0 turns the compiled core off


class Native:
    """The compiled core of this process: built when somebody asks, shared by everybody."""

    def __init__(self) -> None:
        self._build = BackgroundBuild()
        self._backend: NativeBackend | None = None
        self._said = False

    def start(self) -> None:
        """Begin to build in the background. Never waits."""
        if switched_off() is None:
            self._build.start()

    def look(self) -> None:
        """Take the library if an earlier process has built it. Compiles nothing."""
        if switched_off() is None:
            self._build.look()

    def backend(self, wait: bool = False) -> NativeBackend | None:
        """The backend if it is there; wait: build it now if need be."""
        if switched_off() is not None:
            return None
        if wait:
            self._build.wait()
        library = self._build.library
        if library is not None and self._backend is None:
            from miniinfer.native.backend import NativeBackend

            self._backend = NativeBackend(library)
        if self._build.failure is not None and not self._said:
            self._said = True
            log.warning("%s", self._build.failure)
        return self._backend

    @property
    def failure(self) -> str | None:
        """Why there will be none, in a sentence; None if that is not known."""
        return self._build.failure

    def why_not(self) -> str:
        """Why there is no core, in a sentence."""
        return switched_off() or self.failure or "The compiled core is being built."

    @property
    def sentence(self) -> str:
        """How it stands with the core."""
        return self.why_not() if self._build.library is None or switched_off() else "The compiled core is built."


NATIVE = Native()


def backend_sentence(name: str) -> str:
    """How it stands with the backend of this name (a key of config.BACKENDS): whether it is there, what it left out."""
    if name == "graph":
        from miniinfer.engine.graph.backend import GRAPH

        return GRAPH.sentence
    return NATIVE.sentence


def switched_off(environ: Mapping[str, str] = os.environ) -> str | None:
    """The sentence to say if the user has turned the core off."""
    off = environ.get(SWITCH, "").strip().lower() in ("0", "no", "off", "false")
    return f"The compiled core is turned off by {SWITCH}." if off else None


def why_unfit(weights: Weights) -> str | None:
    """Why the core cannot compute with these weights, in a sentence; None if it can."""
    if weights.device.type != "cpu":
        return f"The compiled core runs on the CPU, and the model is on {weights.device}."
    if weights.precision not in ("float32", "bfloat16", "packed"):
        return f"The compiled core computes in float32, bfloat16 or packed, and the model is in {weights.precision}."
    return None


def choose_backend(name: str, weights: Weights, *, wait: bool = False, native: Native = NATIVE) -> Backend:
    """The backend called torch, native or graph; auto: native if it is built and fits, else torch. Never graph by
    itself: what it gives on CUDA has not been measured.

    wait: let a first build end before answering. Raises BadInputError for an unknown name, NativeError if native is
    asked for and cannot be had.
    """
    from miniinfer.engine.backend import TORCH

    if name not in BACKENDS:
        raise BadInputError(f"backend must be one of {', '.join(BACKENDS)}, not {name!r}.")
    if name == "graph":
        from miniinfer.engine.graph.backend import GRAPH

        return GRAPH
    unfit = why_unfit(weights)
    if name == "torch" or (name == "auto" and unfit):
        return TORCH
    if unfit:
        raise NativeError(f"{unfit} Choose another backend.")
    backend = native.backend(wait=wait or name == "native")
    if backend is None and name == "native":
        raise NativeError(native.why_not())
    return backend or TORCH
