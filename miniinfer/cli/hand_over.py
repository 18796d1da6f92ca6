"""Go on as another command, so that its exit status and Ctrl-C are ours. Standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn


def hand_over(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by `command`; where the system cannot (Windows), run it and end with its exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform != "win32":
        os.execve(command[0], list(command), dict(environment))
    # Ctrl-C reaches the child too (same console): the child decides what it means, and we wait for it.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    sys.exit(subprocess.call(list(command), env=dict(environment)))
