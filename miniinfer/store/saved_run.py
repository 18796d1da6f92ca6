"""A run as it is saved: small, because everything large comes back by computing it again. JSON, every field checked.

Kept are the prompt, the tokens with the settings that chose each, what was forced, where it branched off, and the
times that were measured. Keys, values, attention and distributions are recomputed in one prefill when it comes back.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError, MiniInferError

FORMAT, VERSION = "miniinfer-run", 1
MAX_TEXT = 1_000_000  # characters of a prompt
MAX_TOKENS = 1_000_000
MAX_NAME = 200


@dataclass(frozen=True)
class SavedModel:
    """Which model made the run. source: None for the default model, else a path. file_bytes tells a file that was
    replaced by another one of the same name."""

    name: str
    source: str | None
    device: str
    dtype: str
    file_bytes: int


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
        value["steps"] = [_step_to_json(step) for step in self.steps]
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> SavedRun:
        """Raises BadInputError, one sentence, for anything that `to_json` could not have written."""
        try:
            value = json.loads(text)
            if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
                raise BadInputError("This is not a saved MiniInfer run.")
            version = value.pop("version", None)
            if version != VERSION:
                raise BadInputError(f"The run was saved in version {version!r}; this program reads version {VERSION}.")
            return _run(value)
        except MiniInferError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise BadInputError(f"The saved run is damaged ({type(error).__name__}: {error}).") from error


_FIELDS = dataclasses.fields(SavedRun)


def _step_to_json(step: SavedStep) -> dict[str, Any]:
    """A forced token may have been cut by every filter: its logprob is minus infinity, which JSON has no number for."""
    return vars(step) | {"logprob": "-inf"} if step.logprob == -math.inf else vars(step)


def _run(value: dict[str, Any]) -> SavedRun:
    params = tuple(SamplingParams(**_object(p)) for p in _list(value["params"], 1))
    steps = tuple(_step(_object(s), len(params)) for s in _list(value["steps"]))
    run = SavedRun(
        session=_text(value["session"], 64), run_id=_text(value["run_id"], 64), name=_text(value["name"], MAX_NAME),
        prompt=_text(value["prompt"], MAX_TEXT), prompt_ids=tuple(_whole(i) for i in _list(value["prompt_ids"], 1)),
        chat=_bool(value["chat"]), one_pass=_bool(value["one_pass"]), block_size=_whole(value["block_size"], 1),
        model=_model(_object(value["model"])), params=params, steps=steps,
        finish_reason=_maybe(_one_of("stop", "length", "context", "abort"), value["finish_reason"]),
        cursor=_whole(value["cursor"]), created=_real(value["created"]),
        parent=_maybe(lambda x: _text(x, 64), value["parent"]), fork_step=_maybe(_whole, value["fork_step"]),
        forced_token=_maybe(_whole, value["forced_token"]),
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
        _text(value["name"], MAX_NAME), _maybe(lambda x: _text(x, 4096), value["source"]), _text(value["device"], 20),
        _text(value["dtype"], 20), _whole(value["file_bytes"]),
    )


def _step(value: dict[str, Any], num_params: int) -> SavedStep:
    stage_ms = {_text(name, 40): _real(ms) for name, ms in _object(value["stage_ms"]).items()}
    params = _whole(value["params"])
    if params >= num_params or len(stage_ms) > 100:
        raise ValueError("a step names settings or stages that are not there")
    return SavedStep(
        _whole(value["num_scheduled"], 1), _real(value["step_ms"]), stage_ms, _maybe(_whole, value["token_id"]),
        _bool(value["forced"]), _maybe(_logprob, value["logprob"]), _maybe(_real, value["coin"]), params,
        _maybe(_real, value.get("recording_ms")),
    )


def _whole(value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise ValueError(f"a whole number of {least} or more was expected, not {str(value)[:40]!r}")
    return value


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a finite number was expected, not {str(value)[:40]!r}")
    return float(value)


def _logprob(value: Any) -> float:
    return -math.inf if value == "-inf" else _real(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false was expected, not {str(value)[:40]!r}")
    return value


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"a text of at most {most} characters was expected")
    return value


def _list(value: Any, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= MAX_TOKENS:
        raise ValueError(f"a list of {least} to {MAX_TOKENS} entries was expected")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object was expected")
    return value


def _maybe(check: Any, value: Any) -> Any:
    return None if value is None else check(value)


def _one_of(*allowed: str) -> Any:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)} was expected")
        return str(value)

    return check
