"""The processor of this machine, as far as compiled code and packed weights depend on it. Standard library only."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """Its name and abilities, one a line."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))]
        return "\n".join(sorted(set(lines)))
    except OSError:
        return platform.processor() + platform.machine()
