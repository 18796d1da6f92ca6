"""Coroutines in tests get a thread of their own: the browser tests leave an event loop running in the main one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` gives."""
    return in_a_thread(asyncio.run, coroutine)


def in_a_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What a function that runs coroutines itself gives."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
