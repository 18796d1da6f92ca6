"""The run file (docs/run-file.md): a zip of plain numpy arrays and one JSON text, no pickles; versioned, checked.

    header.json.npy   u8 text: {"format": "miniinfer-trace", "version": 2, "origin", "run", "steps", "tokens", ...}
    pattern.npy       u8, for each position i of header.rows a block [L, H, i + 1], one after another
    head.npy          u8, of a long run the whole pattern of header.head: for each position i a row [i + 1]
    maps.npy          u8 [L, H, B, B], of a long prompt all patterns, max-pooled with header.cell positions a cell
    norms.npy         float32 [C, L, 2];   probs.npy  float32 [tokens in the cache, and the one chosen last]
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import numpy as np

from miniinfer.checks import array, exactly, maybe, whole
from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.strangers import read_file
from miniinfer.trace.files.header import (
    FINISHED,
    MOST_NORM,
    MOST_POSITIONS,
    MOST_SETTINGS,
    header_text,
    read_head,
    read_info,
    read_next,
    read_origin,
    read_params,
    read_step,
    read_text,
    read_token,
)
from miniinfer.trace.files.recorded_run import Origin, RecordedRun
from miniinfer.trace.files.recording import recorded_copy
from miniinfer.trace.files.zip_arrays import DAMAGE, read_arrays, write_arrays
from miniinfer.trace.pooling import MAX_CELLS, cell_size
from miniinfer.trace.records import ByteArray, PooledMaps, StepMeta
from miniinfer.trace.run import Run, RunInfo

FORMAT, VERSION = "miniinfer-trace", 2
VERSIONS = (1, VERSION)  # those that are read; version 1 kept all rows, and said less of where it came from
MOST_FILE_BYTES = 48 * 2**20
MOST_BYTES = 160 * 2**20  # unpacked, in all
ARRAY_HEAD = 128  # bytes before the numbers of an array
MEMBERS = {
    "header.json": 24 * 2**20, "pattern": 96 * 2**20, "head": 48 * 2**20, "maps": 64 * 2**20, "norms": 48 * 2**20,
    "probs": 4 * (MOST_POSITIONS + 1) + 128,
}
FIELDS = {
    "format", "version", "origin", "run", "finish_reason", "settings", "step_settings", "steps", "tokens", "next",
    "rows", "head", "cell",
}  # fmt: skip
OLD_FIELDS = {"format", "version", "run", "finish_reason", "steps", "tokens", "next"}


def save_trace(run: Run, path: Path, origin: Origin | None = None) -> None:
    """Record `run` as it stands now (see files/recording.py) and write it."""
    path.write_bytes(trace_bytes(run if isinstance(run, RecordedRun) else recorded_copy(run, origin)))


def trace_bytes(run: RecordedRun) -> bytes:
    """The run file of a recording. Raises BadInputError for one so long that its file could not be opened again."""
    if len(run.head_pattern) * (len(run.head_pattern) + 1) // 2 + ARRAY_HEAD > MEMBERS["head"]:
        run = dataclasses.replace(run, head=None, head_pattern=())
    text = header_text(run, {"format": FORMAT, "version": VERSION}).encode()
    kept = [rows.reshape(-1) for rows in run.pattern if rows is not None]
    arrays = {
        "header.json": np.frombuffer(text, np.uint8),
        "pattern": np.concatenate(kept) if kept else np.empty(0, np.uint8),
        "norms": run.norms.astype("<f4"), "probs": run.probs.astype("<f4"),
    }
    if run.head is not None:
        arrays["head"] = np.concatenate(run.head_pattern)
    if run.maps is not None:
        arrays["maps"] = run.maps.maps
    sizes = {name: array.nbytes + ARRAY_HEAD for name, array in arrays.items()}
    out = io.BytesIO()
    if all(size <= MEMBERS[name] for name, size in sizes.items()) and sum(sizes.values()) <= MOST_BYTES:
        write_arrays(out, arrays)
        if out.tell() <= MOST_FILE_BYTES:
            return out.getvalue()
    raise BadInputError("This run is too long for a run file; its tables can be saved in the menus of the panels.")


def load_trace(path: Path) -> RecordedRun:
    """Read a run file. Raises ModelFileError, one sentence, if it is not one, damaged, too new or too large."""
    try:
        data = read_file(path, MOST_FILE_BYTES)
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read ({error.strerror or error}).") from error
    except ValueError as error:
        raise ModelFileError(f"{path.name} is not opened: {error}.") from error
    return read_trace(data, path.name)


def read_trace(data: bytes, name: str) -> RecordedRun:
    """The same for the bytes of a file of that name."""
    if len(data) > MOST_FILE_BYTES:
        raise ModelFileError(f"{name} is not opened: it has more than {MOST_FILE_BYTES >> 20} MB.")
    try:
        arrays = read_arrays(data, MEMBERS, MOST_BYTES)
        header = read_text(arrays["header.json"].tobytes())
        if header.get("format") != FORMAT:
            raise ModelFileError(f"{name} is not a MiniInfer run file.")
        version = header.get("version")
        if isinstance(version, bool) or version not in VERSIONS:
            raise ModelFileError(
                f"{name} has version {str(version)[:20]!r} of the run file; this program reads "
                f"{' and '.join(map(str, VERSIONS))}: use the MiniInfer that wrote it, or a newer one."
            )
        return _run(_with_new_fields(header) if version == 1 else exactly(header, FIELDS), arrays)
    except DAMAGE as error:
        said = str(error).removesuffix(".") or type(error).__name__
        raise ModelFileError(f"{name} is damaged or is not a MiniInfer run file ({said[:200]}).") from error


def _with_new_fields(header: dict[str, Any]) -> dict[str, Any]:
    """Version 1 as version 2: all rows were kept, and the settings were those of the run from its first step on."""
    old = exactly(header, OLD_FIELDS)
    return old | {
        "origin": {"by": "", "at": "", "kind": "live", "measured": 0}, "settings": [old["run"]["params"]],
        "step_settings": [0] * len(old["steps"]), "rows": list(range(len(old["next"]))), "head": None, "cell": None,
    }


def _run(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RecordedRun:
    info = read_info(header["run"])
    vocab_size = info.model.vocab_size
    steps = [read_step(m) for m in array(header["steps"], 0, MOST_POSITIONS)]
    tokens = [read_token(t, vocab_size) for t in array(header["tokens"], 1, MOST_POSITIONS + 1)]
    length = steps[-1].context_len if steps else 0
    nexts = [maybe(lambda n: read_next(n, vocab_size), n) for n in array(header["next"], length, length)]
    settings = tuple(read_params(p) for p in array(header["settings"], 1, MOST_SETTINGS))
    places = array(header["step_settings"], len(steps), len(steps))
    run = RecordedRun(
        info, maybe(FINISHED, header["finish_reason"]), steps, tokens, nexts,
        _pattern(info, header["rows"], arrays["pattern"], length), arrays["norms"], arrays["probs"],
        *_one_head(info, header["head"], arrays.get("head"), length), _maps(info, header["cell"], arrays.get("maps")),
        settings, tuple(whole(i, 0, len(settings) - 1) for i in places), read_origin(header["origin"]),
    )
    _check_steps(run)
    _check_numbers(run)
    return run


def _pattern(info: RunInfo, rows: Any, flat: np.ndarray, length: int) -> list[ByteArray | None]:
    model = info.model
    kept = [whole(i, 0, length - 1) for i in array(rows, 0, length)]
    heads = model.num_layers * model.num_heads
    if kept != sorted(set(kept)) or flat.dtype != np.uint8 or flat.shape != (heads * sum(i + 1 for i in kept),):
        raise ValueError("the attention rows have the wrong size")
    pattern: list[ByteArray | None] = [None] * length
    offset = 0
    for i in kept:
        size = heads * (i + 1)
        pattern[i] = flat[offset : offset + size].reshape(model.num_layers, model.num_heads, i + 1)
        offset += size
    return pattern


def _one_head(
    info: RunInfo, value: Any, flat: np.ndarray | None, length: int
) -> tuple[tuple[int, int] | None, tuple[ByteArray, ...]]:
    if value is None and flat is None:
        return None, ()
    if value is None or flat is None or flat.dtype != np.uint8 or flat.shape != (length * (length + 1) // 2,):
        raise ValueError("the rows of one head have the wrong size")
    ends = np.cumsum(np.arange(1, length + 1))
    return read_head(value, info.model), tuple(np.split(flat, ends[:-1]))


def _maps(info: RunInfo, cell: Any, maps: np.ndarray | None) -> PooledMaps | None:
    if cell is None and maps is None:
        return None
    across = -(-info.num_prompt_tokens // cell_size(info.num_prompt_tokens))
    shape = (info.model.num_layers, info.model.num_heads, across, across)
    if maps is None or cell != cell_size(info.num_prompt_tokens) or maps.dtype != np.uint8 or maps.shape != shape:
        raise ValueError(f"the pooled maps have the wrong size; they have at most {MAX_CELLS} cells")
    return PooledMaps(maps, cell)


def _check_steps(run: RecordedRun) -> None:
    """Each step follows the one before it: the prompt first, then each token that was chosen."""
    done, prompt = 0, run.info.num_prompt_tokens
    position_bytes = run.info.model.kv_bytes_per_token(run.info.itemsize)
    for number, meta in enumerate(run.steps, 1):
        done += meta.num_scheduled
        if meta.step != number or meta.context_len != done or (done > prompt and meta.num_scheduled != 1):
            raise ValueError("the steps are not in order")
        room = position_bytes * (MOST_POSITIONS + run.info.block_size)  # each position of it is drawn
        if not position_bytes * done == meta.kv_used_bytes <= meta.kv_allocated_bytes <= room:
            raise ValueError("the bytes of the KV cache are not those of its positions")
        ended = number == len(run.steps) and run.finish_reason is not None
        if (meta.token_id is None) != (done < prompt) and not (ended and meta.token_id is None):
            raise ValueError("a token was chosen before the prompt was through, or none after it")
        if meta.token_id is not None:
            found = run.next_tokens[done - 1]
            if len(run.tokens) <= done or run.tokens[done].token_id != meta.token_id:
                raise ValueError("the tokens are not those that the steps chose")
            if found is None or found.token_id != meta.token_id:
                raise ValueError("a step's distribution is not that of its token")
    last: StepMeta | None = run.steps[-1] if run.steps else None
    expected = max(prompt, done + (last is not None and last.token_id is not None))
    if len(run.tokens) != expected:
        raise ValueError(f"there are {len(run.tokens)} tokens where {expected} were expected")
    edit = run.info.edit
    if edit is not None and not (edit.step <= len(run.steps) and run.steps[edit.step - 1].token_id is not None):
        raise ValueError("the run left its trunk at a step that chose no token")


def _check_numbers(run: RecordedRun) -> None:
    length = len(run.pattern)
    if run.norms.shape != (length, run.info.model.num_layers, 2) or run.norms.dtype != np.float32:
        raise ValueError("the lengths of K and V do not fit the steps")
    if run.probs.shape != (min(len(run.tokens), length + 1),) or run.probs.dtype != np.float32:
        raise ValueError("the probabilities do not fit the tokens")
    if not ((run.norms >= 0) & (run.norms <= MOST_NORM)).all():
        raise ValueError("a length of K or V is no length")
    known = run.probs[1:]
    if np.isnan(known).any() or (known < 0).any() or (known > 1.0001).any():
        raise ValueError("a probability is none")
