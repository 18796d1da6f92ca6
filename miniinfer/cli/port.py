"""Whether the app's port on this machine is free. Standard library only."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from miniinfer.errors import MiniInferError
from miniinfer.models.lock import locked

CONNECT_SECONDS = 0.5
LAST_PORT = 65535


def require_free(host: str, port: int) -> None:
    """Raises MiniInferError, with a port that is free, if nothing new can listen at host:port."""
    reason = _why_not(host, port)
    if reason is not None:
        other = next((p for p in range(max(port, 1023) + 1, LAST_PORT + 1) if _why_not(host, p) is None), 0)
        raise MiniInferError(f"Port {port} {reason}; choose another one with --port {other}.")


@contextmanager
def claimed(port: int, folder: Path) -> Iterator[None]:
    """Keep the port from another start that uses this folder: two at the same moment would both find it free, and the
    second would take the first one's answer for that of its own app. Raises MiniInferError if it is claimed."""

    def taken() -> NoReturn:
        raise MiniInferError(f"Another start of MiniInfer has just taken port {port}; choose another one with --port.")

    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder / f"port-{port}.lock", taken, keep=False))
        except OSError:
            pass  # a folder that cannot be written: the port itself still tells
        yield


def any_free(host: str) -> int:
    """A port that the system says is free."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _why_not(host: str, port: int) -> str | None:
    # A listener on all addresses does not always keep us from binding (macOS, Windows), but it answers.
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        if probe.connect_ex((host, port)) == 0:
            return "is already used by another program"
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # there it would let two programs share the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            return "is kept for the system's own programs"
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise MiniInferError(f"This machine has no address {host}; leave --host out.") from error
            return "is already used by another program"
    return None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
