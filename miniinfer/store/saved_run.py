"""A run as it is saved: small, because everything large comes back by computing it again. JSON, every field checked.

Kept are the prompt, the tokens with the settings that chose each, what was forced, where it branched off, and the
times that were measured. Keys, values, attention and distributions are recomputed in one prefill when it comes back.
"""

from __future__ import annotations

import dataclasses
import json
import math
import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from miniinfer.checks import array, logprob, mapping, maybe, one_of, real, text, true_or_false, whole
from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError

FORMAT, VERSION = "miniinfer-run", 1
MAX_TEXT = 1_000_000  # characters of a prompt
MAX_TOKENS = 1_000_000
MAX_NAME = 200


@dataclass(frozen=True)
class SavedModel:
    """Which model made the run. source: None for the default model, else a path. file_bytes and file_sample (see
    models/file_state.py; None in runs that were saved before it was kept) tell a file that was replaced by another one
    of the same name. backend: what computed it, torch for example; None in runs that were saved before it was kept."""

    name: str
    source: str | None
    device: str
    dtype: str
    file_bytes: int
    file_sample: str | None = None
    backend: str | None = None


@dataclass(frozen=True)
class SavedStep:
    """One step as it was measured. num_scheduled: tokens that went through the model; stage_ms by stage name;
    recording_ms: what the recorder took beside them, None in runs that were saved before it was kept.
    token_id, logprob and coin are None while a prefill is unfinished; params: index into `SavedRun.params`."""

    num_scheduled: int
    step_ms: float
    stage_ms: dict[str, float]
    token_id: int | None
    forced: bool
    logprob: float | None
    coin: float | None
    params: int
    recording_ms: float | None = None

    @cached_property
    def json(self) -> str:
        """A run is saved after each of its steps, and the earlier ones are written as they were. A forced token may
        have been cut by every filter: its logprob is minus infinity, which JSON has no number for."""
        value = {name: getattr(self, name) for name in _STEP_FIELDS}
        if self.logprob == -math.inf:
            value["logprob"] = "-inf"
        return _json(value)


@dataclass(frozen=True)
class SavedRun:
    """session, run_id: together the run's key, and what stands in its address. parent: run_id of the trunk in the same
    session, with the step it branched off at; forced_token is None if the branch only changed settings. params: all
    settings that chose a token, the last one in force now."""

    session: str
    run_id: str
    name: str
    prompt: str
    prompt_ids: tuple[int, ...]
    chat: bool
    one_pass: bool
    block_size: int
    model: SavedModel
    params: tuple[SamplingParams, ...]
    steps: tuple[SavedStep, ...]
    finish_reason: str | None
    cursor: int
    created: float  # seconds since 1970
    parent: str | None = None
    fork_step: int | None = None
    forced_token: int | None = None

    @property
    def output_ids(self) -> tuple[int, ...]:
        return tuple(step.token_id for step in self.steps if step.token_id is not None)

    def to_json(self) -> str:
        value = {"format": FORMAT, "version": VERSION} | {f.name: getattr(self, f.name) for f in _FIELDS}
        value["model"] = vars(self.model)
        value["params"] = [vars(params) for params in self.params]
        del value["steps"]
        return f'{_json(value)[:-1]},"steps":[{",".join(step.json for step in self.steps)}]}}'

    @classmethod
    def from_json(cls, text: str) -> SavedRun:
        """Raises BadInputError, one sentence, for anything that `to_json` could not have written."""
        try:
            value = json.loads(text)
            if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
                raise BadInputError("This is not a saved MiniInfer run.")
            version = value.pop("version", None)
            if version != VERSION:
                found = reprlib.repr(version)
                raise BadInputError(f"The run was saved in version {found}; this program reads version {VERSION}.")
            return _run(value)
        except MiniInferError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise BadInputError(f"The saved run is damaged ({type(error).__name__}: {error!s:.200}).") from error


_FIELDS = dataclasses.fields(SavedRun)
_STEP_FIELDS = tuple(f.name for f in dataclasses.fields(SavedStep))


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _run(value: dict[str, Any]) -> SavedRun:
    params = tuple(SamplingParams(**mapping(p)) for p in array(value["params"], 1, MAX_TOKENS))
    steps = tuple(_step(mapping(s), len(params)) for s in array(value["steps"], 0, MAX_TOKENS))
    run = SavedRun(
        session=text(value["session"], 64), run_id=text(value["run_id"], 64), name=text(value["name"], MAX_NAME),
        prompt=text(value["prompt"], MAX_TEXT),
        prompt_ids=tuple(whole(i) for i in array(value["prompt_ids"], 1, MAX_TOKENS)),
        chat=true_or_false(value["chat"]), one_pass=true_or_false(value["one_pass"]),
        block_size=whole(value["block_size"], 1),
        model=_model(mapping(value["model"])), params=params, steps=steps,
        finish_reason=maybe(one_of("stop", "length", "context", "abort"), value["finish_reason"]),
        cursor=whole(value["cursor"]), created=real(value["created"]),
        parent=maybe(lambda x: text(x, 64), value["parent"]), fork_step=maybe(whole, value["fork_step"]),
        forced_token=maybe(whole, value["forced_token"]),
    )
    if len(value) != len(_FIELDS):
        raise ValueError("unknown fields")
    _check_steps(run)
    return run


def _check_steps(run: SavedRun) -> None:
    """The prompt is prefilled first, then each step computes the token that the one before it chose."""
    done = 0
    for step in run.steps:
        done += step.num_scheduled
        ended = step is run.steps[-1] and run.finish_reason is not None  # of no new tokens, or with an error
        if (step.token_id is None) != (done < len(run.prompt_ids)) and not (ended and step.token_id is None):
            raise ValueError("a token was chosen before the prompt was through, or none after it")
        if done > len(run.prompt_ids) and step.num_scheduled != 1:
            raise ValueError("a decode step has one token")
    if run.cursor > len(run.steps):
        raise ValueError("the cursor stands behind the last step")
    if (run.parent is None) != (run.fork_step is None):
        raise ValueError("a branch has a trunk and a step")


def _model(value: dict[str, Any]) -> SavedModel:
    return SavedModel(
        text(value["name"], MAX_NAME), maybe(lambda x: text(x, 4096), value["source"]), text(value["device"], 20),
        text(value["dtype"], 20), whole(value["file_bytes"]), maybe(lambda x: text(x, 64), value.get("file_sample")),
        maybe(lambda x: text(x, 20), value.get("backend")),
    )


def _step(value: dict[str, Any], num_params: int) -> SavedStep:
    stage_ms = {text(name, 40): real(ms) for name, ms in mapping(value["stage_ms"]).items()}
    params = whole(value["params"])
    if params >= num_params or len(stage_ms) > 100:
        raise ValueError("a step names settings or stages that are not there")
    return SavedStep(
        whole(value["num_scheduled"], 1), real(value["step_ms"]), stage_ms, maybe(whole, value["token_id"]),
        true_or_false(value["forced"]), maybe(logprob, value["logprob"]), maybe(real, value["coin"]), params,
        maybe(real, value.get("recording_ms")),
    )
