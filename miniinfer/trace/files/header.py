"""The JSON text of a trace file, and back, every field checked: docs/run-file.md describes it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import reprlib
from typing import Any

from miniinfer.checks import array, exactly, logprob, mapping, maybe, one_of, real, text, true_or_false, whole
from miniinfer.config import PROCESSOR_NAMES, REAL_BACKENDS, ModelConfig, SamplingParams
from miniinfer.errors import tame
from miniinfer.strangers import parse_json
from miniinfer.trace.files.recorded_run import Origin, RecordedRun
from miniinfer.trace.records import NextToken, StepMeta, TokenInfo
from miniinfer.trace.run import ChangeParams, Edit, ForceToken, RunInfo

MOST_POSITIONS = 131_072
MOST_PROMPT = 1_000_000  # characters
MOST_CANDIDATES = 64
MOST_SETTINGS = 10_000
MOST_BYTES = 2**53  # JavaScript counts exactly up to here
MOST_SIZE = 2**31 - 1
MOST_ROWS, MOST_HEADS = 1024, 65_536  # layers, and heads of a layer: each is drawn; heads in all
MOST_MS = 1e10  # a third of a year
MOST_NORM = 1e9
SIZES = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "intermediate_size", "vocab_size")
FINISHED = one_of("stop", "length", "context", "abort")
DEVICE = re.compile(r"(cpu|cuda|mps)(:\d{1,3})?")
DTYPE = one_of("float32", "bfloat16", "packed")
WORD = re.compile(r"\w{1,40}", re.ASCII)  # of stages, processors, architectures
TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?", re.ASCII)
PROBABILITY = 1 + 1e-4  # a sum in float32 may end a little above 1
RUN = {f.name for f in dataclasses.fields(RunInfo)}
PARAMS = {f.name for f in dataclasses.fields(SamplingParams)}
NEXT = {f.name for f in dataclasses.fields(NextToken)}
STEP = {f.name for f in dataclasses.fields(StepMeta)}


def header_text(run: RecordedRun, fixed: dict[str, Any]) -> str:
    """fixed: what stands first, the format and its version."""
    info = run.info
    value = fixed | {
        "origin": dataclasses.asdict(run.origin),
        "run": dataclasses.asdict(info) | {"kind": "recorded", "parent": None, "edit": _edit_to_json(info.edit)},
        "finish_reason": run.finish_reason,
        "settings": [dataclasses.asdict(params) for params in run.settings or (info.params,)],
        "step_settings": list(run.step_settings) or [0] * len(run.steps),
        "steps": [_step_to_json(m) for m in run.steps],
        "tokens": [_token_to_json(t) for t in run.tokens],
        "next": [None if found is None else _next_to_json(found) for found in run.next_tokens],
        "rows": [i for i, rows in enumerate(run.pattern) if rows is not None],
        "head": None if run.head is None else list(run.head),
        "cell": None if run.maps is None else run.maps.cell,
    }
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def read_text(data: bytes) -> dict[str, Any]:
    """JSON without NaN; infinities only as old files wrote the log probability of a token that every filter had cut."""
    return mapping(parse_json(data, _constant))


def _constant(name: str) -> str:
    if name != "-Infinity":
        raise ValueError(f"{name} is no number")
    return "-inf"


def read_info(value: Any) -> RunInfo:
    """The facts of the run. Raises ValueError (also of the settings and of the model's own checks), TypeError."""
    v = exactly({"resumed": 0, "backend": "torch"} | mapping(value), RUN)  # older recordings lack these
    model = _model(v["model"])
    params = read_params(v["params"])
    edit = _edit(v["edit"], params)
    if v["parent"] is not None or v["kind"] != "recorded":
        raise ValueError("a recording has no trunk beside it")
    head = maybe(lambda pair: read_head(pair, model), v["default_head"])
    return RunInfo(
        run_id=text(v["run_id"], 64), name=text(v["name"], 200), kind="recorded",
        model_name=tame(text(v["model_name"], 200)), model=model, device=_spelled(DEVICE, v["device"]),
        dtype=DTYPE(v["dtype"]), itemsize=whole(v["itemsize"], 1, 16),
        weight_bytes=whole(v["weight_bytes"], 0, MOST_BYTES), block_size=whole(v["block_size"], 1, MOST_POSITIONS),
        context_length=whole(v["context_length"], 1, MOST_SIZE), chat=true_or_false(v["chat"]),
        prompt=text(v["prompt"], MOST_PROMPT), num_prompt_tokens=whole(v["num_prompt_tokens"], 1, MOST_POSITIONS),
        params=params, one_pass=true_or_false(v["one_pass"]), default_head=head, edit=edit,
        resumed=whole(v["resumed"], 0, MOST_POSITIONS), backend=one_of(*REAL_BACKENDS)(v["backend"]),
    )


def read_origin(value: Any) -> Origin:
    v = exactly(value, {"by", "at", "kind", "measured"})
    return Origin(
        tame(text(v["by"], 100)), _spelled(TIME, v["at"]), one_of("live", "recorded")(v["kind"]),
        whole(v["measured"], 0, MOST_SIZE),
    )


def _spelled(form: re.Pattern[str], value: Any) -> str:
    """A word of ours: what stands in headings, where a text of somebody else's would be laid out as markup."""
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"a word was expected, not {reprlib.repr(value)}")
    return value


def read_params(value: Any) -> SamplingParams:
    v = exactly(value, PARAMS)
    stop = tuple(text(s, 1000) for s in array(v["stop"], 0, 100))
    stop_ids, order = array(v["stop_ids"], 0, 1000), array(v["order"], 0, len(PROCESSOR_NAMES))
    limits = {name: whole(v[name], 0, MOST_SIZE) for name in ("top_k", "max_new_tokens")}
    return SamplingParams(**v | limits | {
        "stop": stop, "stop_ids": tuple(whole(i) for i in stop_ids), "order": tuple(text(name, 40) for name in order),
    })


def read_head(value: Any, model: ModelConfig) -> tuple[int, int]:
    layer, head = array(value, 2, 2)
    return whole(layer, 0, model.num_layers - 1), whole(head, 0, model.num_heads - 1)


def _model(value: Any) -> ModelConfig:
    v = exactly(value, {f.name for f in dataclasses.fields(ModelConfig)})
    sizes = {name: whole(v[name], most=MOST_SIZE) for name in SIZES}
    layers, heads = sizes["num_layers"], sizes["num_heads"]
    if max(layers, heads) > MOST_ROWS or layers * heads > MOST_HEADS:
        raise ValueError("the model has too many heads")
    return ModelConfig(
        **v | sizes | {"architecture": _spelled(WORD, v["architecture"]), "rope_base": real(v["rope_base"]),
                       "norm_eps": real(v["norm_eps"]), "tied": true_or_false(v["tied"]),
                       "context_length": whole(v["context_length"], most=MOST_SIZE)},
    )  # fmt: skip


def _edit_to_json(edit: Edit | None) -> dict[str, Any] | None:
    if edit is None:
        return None
    return {"step": edit.step, "token_id": edit.token_id if isinstance(edit, ForceToken) else None}


def _edit(value: Any, params: SamplingParams) -> Edit | None:
    """Where the run left its trunk: with a forced token, or with the settings that it has."""
    if value is None:
        return None
    v = exactly(value, {"step", "token_id"})
    step, token_id = whole(v["step"], 1, MOST_POSITIONS), maybe(whole, v["token_id"])
    return ChangeParams(step, params) if token_id is None else ForceToken(step, token_id)


def _step_to_json(meta: StepMeta) -> dict[str, Any]:
    value = dataclasses.asdict(meta)
    return value | {"logprob": "-inf"} if meta.logprob == -math.inf else value


def read_step(value: Any) -> StepMeta:
    v = exactly({"recording_ms": None} | mapping(value), STEP)  # version 1 did not keep it
    stages = {_spelled(WORD, name): real(ms, 0, MOST_MS) for name, ms in mapping(v["stage_ms"]).items()}
    if len(stages) > 100:
        raise ValueError("a step has too many stages")
    sizes = {name: whole(v[name], 0, MOST_BYTES) for name in STEP if name.endswith(("_bytes", "_bytes_read"))}
    phase = one_of("prefill", "decode")(v["phase"])
    return StepMeta(
        step=whole(v["step"], 1, MOST_POSITIONS), phase="prefill" if phase == "prefill" else "decode",
        num_scheduled=whole(v["num_scheduled"], 1, MOST_POSITIONS),
        context_len=whole(v["context_len"], 1, MOST_POSITIONS), step_ms=real(v["step_ms"], 0, MOST_MS), stage_ms=stages,
        token_id=maybe(whole, v["token_id"]), forced=true_or_false(v["forced"]), logprob=maybe(logprob, v["logprob"]),
        coin=maybe(lambda x: real(x, 0, 1), v["coin"]),
        recording_ms=maybe(lambda x: real(x, 0, MOST_MS), v["recording_ms"]), **sizes,
    )


def _token_to_json(token: TokenInfo) -> list[Any]:
    return [token.token_id, token.text, token.data.hex(), token.control, token.partial]


def read_token(value: Any, vocab_size: int) -> TokenInfo:
    token_id, string, data, control, partial = array(value, 5, 5)
    return TokenInfo(
        whole(token_id, 0, vocab_size - 1), text(string, 100_000), bytes.fromhex(text(data, 100_000)),
        true_or_false(control), true_or_false(partial),
    )


def _next_to_json(found: NextToken) -> dict[str, Any]:
    value = {name: getattr(found, name) for name in NEXT}
    return value | {"tokens": [_token_to_json(t) for t in found.tokens]}


def read_next(value: Any, vocab_size: int) -> NextToken:
    v = exactly(value, NEXT)
    tokens = tuple(read_token(t, vocab_size) for t in array(v["tokens"], 1, MOST_CANDIDATES))
    n = len(tokens)
    found = NextToken(
        tokens=tokens, raw_probs=tuple(_share(p) for p in array(v["raw_probs"], n, n)),
        used_probs=tuple(_share(p) for p in array(v["used_probs"], n, n)),
        cut_by=tuple(maybe(lambda x: _spelled(WORD, x), by) for by in array(v["cut_by"], n, n)),
        num_kept=whole(v["num_kept"], 0, vocab_size), rest_count=whole(v["rest_count"], 0, vocab_size),
        rest_raw=_share(v["rest_raw"]), rest_used=_share(v["rest_used"]),
        entropy_raw=real(v["entropy_raw"], -1e-3, 100), entropy_used=real(v["entropy_used"], -1e-3, 100),
        temperature=real(v["temperature"], 0), greedy=true_or_false(v["greedy"]),
        coin=maybe(_share, v["coin"]), lo=maybe(_share, v["lo"]), hi=maybe(_share, v["hi"]),
        token_id=maybe(whole, v["token_id"]), forced=true_or_false(v["forced"]),
    )
    if (found.lo or 0.0) > (found.hi if found.hi is not None else PROBABILITY):
        raise ValueError("the chosen token's part of the distribution ends before it begins")
    if found.token_id is not None and found.token_id not in [t.token_id for t in tokens]:
        raise ValueError("the chosen token is not among its candidates")
    return found


def _share(value: Any) -> float:
    return real(value, 0, PROBABILITY)
