"""What a bench prints: one figure a line, beside it the bar it has to keep and whether it does. Writes no file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from miniinfer.errors import MiniInferError

Size = TypeVar("Size")


@dataclass(frozen=True)
class Figure:
    """One measured number. most: the bar, the largest value that is good enough; None where none was set.

    unit: "ms", "s", "bytes", "x" (a ratio), "tokens/s" or "GB/s" (powers of ten). p90: the 90th percentile of what
    `value` is the median of. note: how it was taken, or what belongs to it.
    """

    name: str
    value: float
    unit: str
    most: float | None = None
    p90: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.most is None else self.value <= self.most


def main(name: str, about: str, measure: Callable[[Size], Sequence[Figure]], *, full: Size, quick: Size) -> None:
    """Read --quick and --json from the command line, measure, print. The bars never change the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=about)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes: to see that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of all sides (by default those of torch)")
    chosen = parser.parse_args()
    if chosen.threads is not None:
        _with_threads(name, chosen.threads)
    try:
        figures = measure(quick if chosen.quick else full)
    except MiniInferError as error:
        sys.exit(str(error))
    if chosen.json:
        found = [asdict(figure) | {"met": figure.met} for figure in figures]
        print(json.dumps({"bench": name, "quick": chosen.quick, "machine": machine(), "figures": found}))
    else:
        facts = ", ".join(f"{key} {value}" for key, value in machine().items())
        print(f"bench.{name}{' --quick' if chosen.quick else ''} ({facts})\n\n{table(figures)}")


def _with_threads(name: str, threads: int) -> None:
    """Begin anew with that many, unless this process has: OpenMP reads it once, when torch is imported."""
    if threads < 1:
        sys.exit("--threads must be at least 1.")
    if os.environ.get("OMP_NUM_THREADS") != str(threads):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", f"bench.{name}", *sys.argv[1:]])


def machine() -> dict[str, str | int | float]:
    """What the figures depend on. load: the mean number of busy processes over the last minute, this one included."""
    facts: dict[str, str | int | float] = {"cpus": os.cpu_count() or 0, "arch": platform.machine()}
    if hasattr(os, "getloadavg"):
        facts["load"] = round(os.getloadavg()[0], 1)
    if "torch" in sys.modules:
        facts |= {"torch": sys.modules["torch"].__version__, "threads": sys.modules["torch"].get_num_threads()}
    facts |= {key: value for key, value in os.environ.items() if key.startswith(("OMP_", "KMP_", "GOMP_"))}
    return facts


def table(figures: Sequence[Figure]) -> str:
    """Columns: figure, measured, 90th percentile, bar, whether it is met, note."""
    rows = [("figure", "measured", "p90", "bar", "met", "")]
    for f in figures:
        met = {True: "yes", False: "NO", None: ""}[f.met]
        bar = "" if f.most is None else f"at most {quantity(f.most, f.unit, short=True)}"
        p90 = "" if f.p90 is None else quantity(f.p90, f.unit)
        rows.append((f.name, quantity(f.value, f.unit), p90, bar, met, f.note))
    wide = [max(len(row[i]) for row in rows) for i in range(5)]
    left = (0, 3, 4)  # names, bars and answers; numbers stand right
    lines = []
    for row in rows:
        cells = [cell.ljust(wide[i]) if i in left else cell.rjust(wide[i]) for i, cell in enumerate(row[:5])]
        lines.append("  ".join([*cells, row[5]]).rstrip())
    lines.insert(1, "-" * (sum(wide) + 2 * 4))
    return "\n".join(lines)


def quantity(value: float, unit: str, *, short: bool = False) -> str:
    """A number with its unit: bytes in full, others with three or four digits. short: no zeros at the end."""
    if unit == "bytes":
        return f"{value:,.0f} bytes"
    digits = 3 if unit == "x" else 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    text = f"{value:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if short and '.' in text else text} {unit}"
