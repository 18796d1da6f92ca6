"""The trace file: a run as a zip of plain numpy arrays and one JSON text, no pickles. Versioned, checked when read.

    header.json.npy   u8 text: {"format": "miniinfer-trace", "version": 1, "run", "steps", "tokens", "next"}
    pattern.npy       u8, for each position i a block [L, H, i + 1], one after another
    norms.npy         float32 [C, L, 2];   probs.npy  float32 [C + 1]
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from miniinfer.config import ModelConfig, SamplingParams
from miniinfer.errors import MiniInferError, ModelFileError
from miniinfer.trace.recorded_run import RecordedRun
from miniinfer.trace.records import NextToken, StepMeta, TokenInfo
from miniinfer.trace.run import Run, RunInfo

FORMAT, VERSION = "miniinfer-trace", 1
MAX_BYTES = 512 * 1024 * 1024
# All that reading a zip of numpy arrays with a JSON text can raise; RuntimeError: encrypted or unsupported members.
DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)


def save_trace(run: Run, path: Path) -> None:
    """Write everything that the panels can ask of `run`, as it stands now."""
    length = run.steps[-1].context_len if run.steps else 0
    header = {
        "format": FORMAT,
        "version": VERSION,
        "run": dataclasses.asdict(run.info) | {"kind": "recorded", "parent": None, "edit": None},
        "finish_reason": run.finish_reason,
        "steps": [dataclasses.asdict(m) for m in run.steps],
        "tokens": [_token_to_json(t) for t in run.tokens],
        "next": [_next_to_json(run, p) for p in range(length)],
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    pattern = np.concatenate([run.rows_at(i).reshape(-1) for i in range(length)]) if length else np.empty(0, np.uint8)
    with open(path, "wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, **{"header.json": text},
            pattern=pattern, norms=run.kv_norms(0), probs=run.token_probs(0),
        )


def load_trace(path: Path) -> RecordedRun:
    """Read a trace file. Raises ModelFileError, one sentence, if it is not one, damaged, too new or too large."""
    try:
        arrays = _arrays(path)
        header = json.loads(arrays["header.json"].tobytes().decode())
        if header.get("format") != FORMAT:
            raise ModelFileError(f"{path.name} is not a MiniInfer trace.")
        if header.get("version") != VERSION:
            raise ModelFileError(
                f"{path.name} has trace version {header.get('version')!r}; this program reads version {VERSION}."
            )
        return _run(header, arrays)
    except MiniInferError:
        raise
    except DAMAGE as error:
        raise ModelFileError(f"{path.name} is damaged or is not a MiniInfer trace ({error}).") from error


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
            raise ModelFileError(f"{path.name} unpacks to more than {MAX_BYTES // 2**20} MB; it is not opened.")
        names = ("header.json", "pattern", "norms", "probs")
        return {n: np.load(io.BytesIO(archive.read(f"{n}.npy")), allow_pickle=False) for n in names}


def _run(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RecordedRun:
    info = dict(header["run"])
    info["model"] = ModelConfig(**info["model"])
    info["params"] = SamplingParams(**info["params"])
    info["default_head"] = tuple(info["default_head"]) if info["default_head"] is not None else None
    run_info = RunInfo(**info)
    model = run_info.model
    length = len(header["next"])
    rows, offset = [], 0
    for i in range(length):
        size = model.num_layers * model.num_heads * (i + 1)
        rows.append(arrays["pattern"][offset : offset + size].reshape(model.num_layers, model.num_heads, i + 1))
        offset += size
    if offset != arrays["pattern"].size or arrays["pattern"].dtype != np.uint8:
        raise ValueError("the attention rows have the wrong size")
    norms, probs = arrays["norms"], arrays["probs"]
    if norms.shape != (length, model.num_layers, 2) or len(probs) != len(header["tokens"]):
        raise ValueError("the arrays do not fit the steps")
    steps = [StepMeta(**m) for m in header["steps"]]
    if any(m.step != i + 1 for i, m in enumerate(steps)) or (steps[-1].context_len if steps else 0) != length:
        raise ValueError("the steps are not in order")
    return RecordedRun(
        run_info, header["finish_reason"], steps, [_token_from_json(t) for t in header["tokens"]],
        [_next_from_json(n) for n in header["next"]], rows, norms.astype(np.float32), probs.astype(np.float32),
    )


def _token_to_json(token: TokenInfo) -> list[Any]:
    return [token.token_id, token.text, token.data.hex(), token.control, token.partial]


def _token_from_json(value: list[Any]) -> TokenInfo:
    return TokenInfo(int(value[0]), str(value[1]), bytes.fromhex(value[2]), bool(value[3]), bool(value[4]))


def _next_to_json(run: Run, position: int) -> dict[str, Any]:
    sampled = next((m.step for m in run.steps if m.context_len == position + 1 and m.token_id is not None), None)
    found = run.next_token(sampled) if sampled is not None else run.next_at(position)
    assert found is not None
    value = dataclasses.asdict(found)
    value["tokens"] = [_token_to_json(t) for t in found.tokens]
    return value


def _next_from_json(value: dict[str, Any]) -> NextToken:
    known = dict(value)
    known["tokens"] = tuple(_token_from_json(t) for t in value["tokens"])
    for name in ("raw_probs", "used_probs", "cut_by"):
        known[name] = tuple(value[name])
    return NextToken(**known)
