"""How many threads a product uses, and how they wait for each other. Standard library only.

OpenMP and torch read these settings when torch is imported, and never again: call `configure` before that.

Between two products of a step lie some 20 to 60 microseconds in which the helper thread has nothing to do. By default
it spins for milliseconds before it sleeps (good while the cores are ours, bad beside another busy program, which waits
for a core that only spins); OMP_WAIT_POLICY=passive lets it sleep at once, and pays for every wake-up. Spinning just
long enough for the gap is a middle way. Measured on decode steps of SmolLM2-135M in float32 (64 to 120 tokens, 2 cores
of a shared machine, 85 windows each in random order; median, then mean, in ms):

                          machine in use by others     the same, and one more busy process
    default                   110, 183                     182, 287
    passive                   128, 200                     218, 311
    2,000 spins               129, 222                     238, 319
    10,000 spins              110, 186                     184, 253
    always spinning           over 300                     over 300

In quiet moments all of them, and a single thread, took 48 to 60 ms: there the memory was the limit. So the number of
threads stays what torch chooses, the cores of the machine, but for a container that may use fewer.
"""

from __future__ import annotations

import math
import os
from collections.abc import MutableMapping
from pathlib import Path

SPINS = "10000"
CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "quota period" in microseconds, or "max period"


def configure(environ: MutableMapping[str, str] = os.environ, *, spare: int = 0) -> None:
    """Set what was found best; what the user has set stays.

    spare: cores to leave to something that is busy too (a class of thirty keeps Streamlit's own Python busy).
    """
    environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch asks for large pages: see docs/performance.md
    if "OMP_WAIT_POLICY" not in environ:
        environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read by GNU OpenMP, that of torch on Linux
    allowed = allowed_cores()
    if spare:
        allowed = max(1, (allowed or os.cpu_count() or 1) - spare)
    if allowed is not None:
        environ.setdefault("OMP_NUM_THREADS", str(allowed))


def allowed_cores(quota_file: Path = CGROUP_QUOTA) -> int | None:
    """Cores that a container may use, if it may use fewer than the machine has; torch only counts the machine's."""
    try:
        quota, period = quota_file.read_text().split()
        cores = max(1, math.floor(int(quota) / int(period)))
    except (OSError, ValueError):  # no such file (no Linux, no container), or no limit
        return None
    return cores if cores < (os.cpu_count() or 1) else None
