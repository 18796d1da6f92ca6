"""For whom the app runs: one person on their own machine, or everybody who can reach it and knows the pass phrase.

`run` decides it and hands it to the app in an environment variable; everything that differs for a class reads it here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from miniinfer.errors import BadInputError

VARIABLE = "MINIINFER_HOSTING"


@dataclass(frozen=True)
class Hosting:
    """The default is the own machine: nothing is asked, nothing but memory is limited.

    Limits: None means none. `verifier` is what the pass phrase is checked against (passphrase.py), never the phrase.
    """

    guarded: bool = False  # others can reach it: a pass phrase comes before everything else
    device: str = "auto"  # what the model of a new tab runs on, and in which precision
    dtype: str = "float32"
    local_paths: bool = True  # files of this machine may be named in the browser
    own_runs_only: bool = False  # the page Runs shows the runs of this browser tab's own address alone
    verifier: str | None = None
    max_sessions: int | None = None
    max_prompt_tokens: int | None = None
    max_step_tokens: int | None = None  # a longer prompt is prefilled in so many steps: others take turns with it
    max_saved_bytes: int | None = None  # of one session's saved runs
    memory_bytes: int = 1536 * 2**20  # caches and records of all sessions; beyond it idle ones give theirs up
    session_kv_bytes: int = 512 * 2**20  # the most KV cache that the runs of one session may reserve
    pool_growth: int = 256  # positions that a pool of KV blocks grows by, whatever the block size
    session_trace_bytes: int = 256 * 2**20  # the most that the records of one session's steps may take
    log_text: bool = False  # prompts may stand in the log

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Hosting:
        """What `run` has left there, or the default. Raises BadInputError if it is not what `run` writes: whoever
        meant to guard the app must not get an open one."""
        text = environment.get(VARIABLE)
        if text is None:
            return cls()
        try:
            made = cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise BadInputError(f"{VARIABLE} is not what `python3 -m miniinfer run` writes: unset it.") from error
        if made.guarded and not made.verifier:
            raise BadInputError(f"{VARIABLE} asks for a pass phrase and has none: unset it.")
        return made


def guarded(verifier: str) -> Hosting:
    """For a class: about thirty people on one small machine, in less than 2.5 GB with the model."""
    return Hosting(
        guarded=True, local_paths=False, own_runs_only=True, verifier=verifier, max_sessions=40,
        max_prompt_tokens=1024, max_step_tokens=256, max_saved_bytes=10 * 2**20, memory_bytes=1024 * 2**20,
        session_kv_bytes=128 * 2**20, pool_growth=64, session_trace_bytes=128 * 2**20,
    )  # fmt: skip


__all__ = ["VARIABLE", "Hosting", "guarded"]
