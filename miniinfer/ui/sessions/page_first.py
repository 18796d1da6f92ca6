"""The first page goes before the model: while it is being served and drawn, the thread that imports torch stops.

Importing torch takes a second of Python, in which other threads get the interpreter only now and then; the browser
fetches the page's scripts from this very process meanwhile. But until somebody asks for a page that second is free. So
torch is imported from the start of the server on, and the import stops before each of torch's thousand modules for as
long as a first page is being served.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_SECONDS = 5.0  # after the first request: then both go on side by side
PAUSE_SECONDS = 0.1  # after an answer: the browser asks for the next thing within this
POLL_SECONDS = 0.005
SWITCH_SECONDS = 0.0005  # how long a thread keeps the interpreter while another wants it; a tenth of Python's own


class PageFirst:
    """Hears of every request of the first visit, and lets others wait for them. Safe from any thread."""

    def __init__(self) -> None:
        self._first: float | None = None  # when the first page was asked for
        self._last = 0.0
        self._answering = 0
        self._drawing = False  # from the first request on until Python has drawn a page
        self._lock = threading.Lock()

    @property
    def is_told(self) -> bool:
        """True once a request was heard of: the app is served by serve.py, and somebody is here."""
        return self._first is not None

    def asked(self, *, page: bool) -> None:
        """A request begins. page: it is the connection over which a page is drawn."""
        with self._lock:
            now = time.monotonic()
            if page or self._first is None:
                self._drawing = True
            self._first = self._first or now
            self._last = now
            self._answering += 0 if page else 1

    def answered(self) -> None:
        """A request that was no page has its answer."""
        with self._lock:
            self._answering -= 1
            self._last = time.monotonic()

    def drawn(self) -> None:
        """Python has drawn a page."""
        with self._lock:
            self._drawing = False

    def needs_the_interpreter(self) -> bool:
        """True while a page is being served or drawn, for MOST_SECONDS of the first visit."""
        now = time.monotonic()
        with self._lock:
            if self._first is None or now > self._first + MOST_SECONDS:
                return False
            return self._drawing or self._answering > 0 or now < self._last + PAUSE_SECONDS

    def wait(self) -> None:
        """Until no page needs the interpreter."""
        while self.needs_the_interpreter():
            time.sleep(POLL_SECONDS)

    @contextmanager
    def before_imports(self) -> Iterator[None]:
        """Whatever this thread imports in here waits, statement by statement; imports of other threads do not.

        Not by a finder on sys.meta_path: Python asks those with a lock held that every other import needs too.
        """
        thread, honest = threading.get_ident(), builtins.__import__

        def waiting(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread:
                self.wait()
            return honest(*args, **kwargs)

        builtins.__import__ = waiting
        try:
            yield
        finally:
            builtins.__import__ = honest


PAGE_FIRST = PageFirst()  # of this process
