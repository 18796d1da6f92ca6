"""How much memory can be had: of the machine, and of the container's limit, in both forms of control groups."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from miniinfer.free_memory import free_bytes, gigabytes

MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\nSwapFree:        2000 kB\n"


def put(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(autouse=True)
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")


def test_of_the_machine(tmp_path: Path) -> None:
    assert free_bytes(put(tmp_path, {"proc/meminfo": MEMINFO})) == 1024 * 10_000


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) is None
    assert free_bytes(put(tmp_path, {"proc/meminfo": "MemTotal: many\n", "proc/self/cgroup": "nonsense\n"})) is None


def test_a_containers_limit_counts_what_it_has_read_as_free(tmp_path: Path) -> None:
    found = free_bytes(put(tmp_path, {
        "proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/app/one\n",
        "sys/fs/cgroup/app/one/memory.max": "max\n", "sys/fs/cgroup/app/one/memory.current": "1000\n",
        "sys/fs/cgroup/app/memory.max": "5000000\n", "sys/fs/cgroup/app/memory.current": "4000000\n",
        "sys/fs/cgroup/app/memory.stat": "anon 3000000\ninactive_file 500000\nactive_file 100000\n",
    }))  # fmt: skip
    assert found == 1_600_000, "the limit of the group around it holds for it too"


def test_the_older_form_of_limits(tmp_path: Path) -> None:
    found = free_bytes(put(tmp_path, {
        "proc/meminfo": MEMINFO, "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000\n",  # inside, the container's own group is the top
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "2900000\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50000\ntotal_active_file 0\n",
    }))  # fmt: skip
    assert found == 150_000
    no_limit = put(tmp_path, {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"})
    assert free_bytes(no_limit) == 1024 * 10_000


def test_more_in_use_than_the_limit_is_nothing_free(tmp_path: Path) -> None:
    assert free_bytes(put(tmp_path, {
        "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10", "sys/fs/cgroup/memory.current": "20",
    })) == 0  # fmt: skip


def test_sizes_in_words() -> None:
    assert [gigabytes(n) for n in (3_400_000, 999_000_000, 1_540_000_000)] == ["3 MB", "999 MB", "1.5 GB"]
