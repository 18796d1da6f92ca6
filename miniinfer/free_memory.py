"""How much memory this process can still get. Standard library only.

Linux gives out more than there is and ends a process when it runs out, without a word to anybody; so what is large asks
here first. Where a system says no to a program that asks for too much, that is an error like any other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
UNLIMITED = 1 << 60  # what a control group without a limit says, or more


def free_bytes(root: Path = ROOT) -> int | None:
    """Bytes that can be had before somebody is ended for it: of the machine, and of the container's limit. None where
    the system does not say. root: where /proc and /sys are."""
    if sys.platform == "win32":
        return _windows()
    if sys.platform == "darwin":  # what is idle goes to the disk, so all memory there is can be had
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = [each for each in (_of_the_machine(root), *_of_the_groups(root)) if each is not None]
    return max(0, min(found)) if found else None


def _of_the_machine(root: Path) -> int | None:
    facts = _facts(root / "proc/meminfo")
    there = facts.get("MemAvailable:")
    return None if there is None else 1024 * (there + facts.get("SwapFree:", 0))


def _of_the_groups(root: Path) -> Iterator[int]:
    """Limit less use of this process's control group and of those around it. Files that the group has read can be let
    go, and do not count as used."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            top, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            top, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        for each in (group, *group.parents):
            if not each.is_relative_to(top):
                break
            most, now = _whole(each / limit), _whole(each / used)
            if most is not None and now is not None and most < UNLIMITED:
                facts = _facts(each / "memory.stat")
                kinds = ("inactive_file", "active_file")
                yield most - now + sum(facts.get(f"total_{kind}", facts.get(kind, 0)) for kind in kinds)


def _windows() -> int | None:
    """What the system still promises to anybody, the page file included."""
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong)] + [
            (name, ctypes.c_ulonglong)
            for name in ("total", "free", "total_page", "free_page", "total_virtual", "free_virtual", "extended")
        ]

    status = Status(length=ctypes.sizeof(Status))
    library = getattr(ctypes, "windll", None)
    if library is None or not library.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.free_page)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


def _whole(path: Path) -> int | None:
    """None for no such file, and for "max"."""
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _facts(path: Path) -> dict[str, int]:
    """Lines of a name and a number, with or without a unit."""
    lines = (line.split() for line in _text(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


def gigabytes(num_bytes: int) -> str:
    """For a sentence: 1.5 GB, 340 MB."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:,.0f} MB"
