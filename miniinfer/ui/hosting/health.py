"""What `/health` says to whoever hosts the app: numbers about the process, nothing about anybody in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miniinfer.models.registry import DEFAULT_MODEL

if TYPE_CHECKING:
    from miniinfer.ui.sessions.model_host import ModelHost


def health_of(host: ModelHost, uptime_s: float, *, saving: bool = True) -> dict[str, Any]:
    """status: "ok", "loading" or "failed" (the default model could not be loaded, or the device stopped and no step has
    been made since). saving: whether runs can be saved; if not, everything else goes on. Memory in bytes, null where
    the system does not say. Names of files and texts of errors stay out: the page is open to everybody."""
    state = host.status(host.default_key).state
    status = "failed" if host.device_lost else {"waiting": "ok", "ready": "ok"}.get(state, state)
    return {
        "status": status,
        "device": "lost" if host.device_lost else "ok",
        "saving": "ok" if saving else "failing",
        "model": {"name": DEFAULT_MODEL, "state": state, "loaded": host.num_models},
        "sessions": {"open": len(host.sessions), "limit": host.hosting.max_sessions},
        "queue": host.queue_length,
        "memory": {
            "process_bytes": process_bytes(), "sessions_bytes": host.sessions.used_bytes(),
            "sessions_limit_bytes": host.hosting.memory_bytes, "evictions": host.sessions.num_evictions,
        },
        "uptime_s": round(uptime_s, 1),
    }  # fmt: skip


def process_bytes() -> int | None:
    """Resident memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
