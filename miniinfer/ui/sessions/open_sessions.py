"""All sessions of the process: how many there may be, and which of them keep their caches when memory runs short.

What a session holds is its KV caches and the records of its steps. Beyond the limit, the session that was used longest
ago gives both up, and computes them again when somebody comes back to it: its tokens and draws are kept.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from miniinfer.errors import BadInputError

if TYPE_CHECKING:
    from miniinfer.ui.sessions.session import Session

BUSY_SECONDS = 2.0  # who has just asked for something keeps what they have


class OpenSessions:
    """memory_bytes: what all may hold together. max_sessions: None for any number."""

    def __init__(self, memory_bytes: int, max_sessions: int | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.max_sessions = max_sessions
        self.num_evictions = 0
        self._lock = threading.Lock()
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._there())

    def add(self, session: Session) -> None:
        """Raises BadInputError, one sentence, if there are as many as there may be."""
        with self._lock:
            there = sum(not other.leaving for other in self._sessions.values())  # a reload takes its own place
            if self.max_sessions is not None and there >= self.max_sessions:
                raise BadInputError(
                    f"All {self.max_sessions} places of this server are taken: try again when somebody has left."
                )
            self._sessions[session.session_id] = session

    def remove(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.session_id, None)

    @property
    def last_used(self) -> float:
        """When any of those that are open was last used, on the monotonic clock."""
        return max((session.last_used for session in self._there()), default=float("-inf"))

    def used_bytes(self) -> int:
        return sum(session.memory_bytes() for session in self._there())

    def make_room(self, for_whom: Session) -> None:
        """Called when a session has grown: others that are idle give up theirs until all fits, longest idle first."""
        there = self._there()
        used = {session.session_id: session.memory_bytes() for session in there}
        over = sum(used.values()) - self.memory_bytes
        if over <= 0:
            return
        now = time.monotonic()
        for session in sorted(there, key=lambda session: session.last_used):
            if over <= 0 or now - session.last_used < BUSY_SECONDS:
                break
            if session is not for_whom and used[session.session_id] and session.give_up_memory():
                over -= used[session.session_id]
                self.num_evictions += 1

    def _there(self) -> list[Session]:
        with self._lock:
            return list(self._sessions.values())
