"""Files from strangers, many thousands of them: each is opened or refused with one sentence, soon and in little memory.

    python -m bench.fuzz_files --files 20000 --seed 1

A kind of file is one entry of KINDS: how a good one is made, how it is read, and the ways to damage it. What a reader
does is watched by Python's own audit hook: nothing is compiled, started, fetched, unpickled or written while it reads.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.fuzz_kind import Kind
from bench.fuzz_links import TOKEN, link_kind
from bench.fuzz_models import MODEL_KINDS
from bench.fuzz_mutations import BYTES, PAGE, array_of_json, json_value, zip_member
from miniinfer.errors import MiniInferError
from miniinfer.figures.workspace import Selection, encode
from miniinfer.store.saved_run import SavedRun
from miniinfer.trace.files.format import read_trace
from miniinfer.ui.sessions.memory import EXAMPLE

MOST_SECONDS = 5.0  # of processor time for one file: a busy machine is not the file's fault
MOST_BYTES = 600 * 2**20  # that the process may grow by over all files
FORBIDDEN = (
    "exec", "compile", "os.system", "subprocess", "socket", "pickle", "os.exec", "os.remove", "os.rename", "ctypes",
)  # fmt: skip


@dataclass
class Outcome:
    """seconds: the longest that one file took. broken: what happened that must not, the mutated file with it."""

    opened: int = 0
    refused: int = 0
    seconds: float = 0.0
    broken: list[tuple[int, str]] = field(default_factory=list)


def _open_run_file(data: bytes) -> object:
    run = read_trace(data, "file.npz")
    steps = tuple(meta.step for meta in run.steps[:3])
    return encode(run, Selection(cursor=1, details=steps, probs_from=0))


def _saved_run() -> SavedRun:
    """A run as the store has it, from the example's own tokens and times."""
    run = read_trace(EXAMPLE.read_bytes(), EXAMPLE.name)
    from miniinfer.store.saved_run import SavedModel, SavedStep

    steps = tuple(
        SavedStep(m.num_scheduled, m.step_ms, m.stage_ms, m.token_id, m.forced, m.logprob, m.coin, 0) for m in run.steps
    )
    info = run.info
    return SavedRun(
        TOKEN, "r1", info.name, info.prompt, tuple(t.token_id for t in run.tokens[: info.num_prompt_tokens]),
        info.chat, info.one_pass, info.block_size, SavedModel(info.model_name, None, info.device, info.dtype, 1),
        (info.params,), steps, run.finish_reason, 1, 0.0,
    )


KINDS: dict[str, Kind] = {
    "run file": Kind(
        EXAMPLE.read_bytes, _open_run_file,
        (*BYTES, zip_member({"header": (array_of_json,)}), zip_member({"header": (array_of_json, *BYTES)})),
    ),
    "saved run": Kind(
        lambda: _saved_run().to_json().encode(), lambda data: SavedRun.from_json(data.decode(errors="replace")),
        (*BYTES, json_value, json_value),
    ),
    "link": link_kind(_saved_run()),
    **MODEL_KINDS,
}  # fmt: skip


def fuzz(kind: Kind, files: int, seed: int, *, pages: bool = False) -> Outcome:
    """Read `files` damaged files, each of which follows from the seed and its number. pages: also the good file cut at
    every 4 KiB, under negative numbers."""
    good = kind.good()
    kind.read(kind.place(good))
    found = Outcome()
    for number in range(files):
        _try(kind, damaged(kind, good, seed, number), number, found)
    for end in range(0, len(good), PAGE) if pages else ():
        _try(kind, good[:end], -1 - end // PAGE, found)
    return found


def damaged(kind: Kind, good: bytes, seed: int, number: int) -> bytes:
    dice = random.Random(f"{seed}.{number}")
    return dice.choice(kind.ways)(dice, good)


def _try(kind: Kind, data: bytes, number: int, found: Outcome) -> None:
    placed = kind.place(data)
    started = time.process_time()
    try:
        with watched():
            kind.read(placed)
        found.opened += 1
    except MiniInferError as error:
        found.refused += 1
        if "\n" in str(error) or not 10 < len(str(error)) < 2000:
            found.broken.append((number, f"not one sentence: {error!s:.80}"))
    except BaseException as error:  # a panic of a library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        found.broken.append((number, f"{type(error).__name__}: {error!s:.80}"))
    took = time.process_time() - started
    found.seconds = max(found.seconds, took)
    if took > MOST_SECONDS:
        found.broken.append((number, f"took {took:.1f} s"))


class watched:
    """While it is entered, what a reader of files has no business with is an error. An audit hook cannot be taken off,
    so there is one, and a switch."""

    on = False
    hooked = False

    def __enter__(self) -> None:
        if not watched.hooked:
            sys.addaudithook(_audit)
            sys.dont_write_bytecode = True
            watched.hooked = True
        watched.on = True

    def __exit__(self, *_: object) -> None:
        watched.on = False


def _audit(event: str, values: tuple[object, ...]) -> None:
    if not watched.on:
        return
    named = event == "open" and not isinstance(values[0], int)  # a number is a pipe that is there already
    writes = named and isinstance(values[1], str) and any(letter in values[1] for letter in "wax+")
    ours = event == "subprocess.Popen" and "template_process" in str(values[1])  # where templates may do their worst
    if event in ("exec", "compile"):  # a library that imports a part of itself when it first needs it
        ours = str(getattr(values[0], "co_filename", values[-1])).startswith((sys.prefix, sys.base_prefix))
    if writes or (event.startswith(FORBIDDEN) and not ours):
        watched.on = False
        raise AssertionError(f"reading a file did this: {event} {values!s:.100}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_files", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, default=20_000, help="in all, shared out over the kinds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only this kind; may be repeated")
    parser.add_argument("--keep", type=Path, help="a folder for the files that broke a reader")
    options = parser.parse_args()
    kinds = options.kind or sorted(KINDS)
    before = _peak()
    failed = False
    for name in kinds:
        kind = KINDS[name]
        each = -(-options.files // len(kinds))
        started = time.perf_counter()
        found = fuzz(kind, each, options.seed, pages=True)
        print(
            f"{name}: {each:,} files in {time.perf_counter() - started:.0f} s: {found.refused:,} refused, "
            f"{found.opened:,} opened, {len(found.broken)} broken; the longest took {found.seconds * 1000:.0f} ms"
        )
        for number, what in found.broken[:20]:
            print(f"  {name} {number}: {what}")
            if options.keep:
                good = kind.good()
                data = damaged(kind, good, options.seed, number) if number >= 0 else good[: -(number + 1) * PAGE]
                (options.keep / f"{name.replace(' ', '_')}.{number}").write_bytes(data)
        failed |= bool(found.broken)
    grown = _peak() - before
    print(f"memory: the process grew by {grown / 2**20:.0f} MB at its peak; {MOST_BYTES // 2**20} MB is the bar")
    sys.exit(failed or grown > MOST_BYTES)


def _peak() -> int:
    """Bytes; Linux says kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
