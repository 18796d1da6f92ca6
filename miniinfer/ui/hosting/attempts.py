"""Guessing is slow: after each wrong pass phrase an address waits, twice as long each time."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

FIRST_SECONDS, MOST_SECONDS = 1.0, 30.0
FORGOTTEN_SECONDS = 300.0  # without a wrong phrase, an address is as good as new
MOST_ADDRESSES = 4096

ONE_HOUSEHOLD = 64  # bits of an IPv6 address: whoever has one has all of them, and would guess from each in turn


def whose(host: str) -> str:
    """Who is behind this address, as one word: what a proxy writes into a header may be anything."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return str(ipaddress.ip_network((address, ONE_HOUSEHOLD), strict=False))
    return str(address)


class Attempts:
    """By address; the one heard of longest ago is forgotten when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last was

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0 if it may now."""
        count, last = self._failures.get(address, (0, 0.0))
        if not count:
            return 0.0
        passed = self._clock() - last
        return 0.0 if passed > FORGOTTEN_SECONDS else max(0.0, _delay(count) - passed)

    def failed(self, address: str) -> float:
        """Note a wrong phrase. How long the address waits now, in seconds."""
        count, last = self._failures.pop(address, (0, 0.0))
        if count and self._clock() - last > FORGOTTEN_SECONDS:
            count = 0
        self._failures[address] = (count + 1, self._clock())
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        return _delay(count + 1)

    def succeeded(self, address: str) -> None:
        self._failures.pop(address, None)


def _delay(count: int) -> float:
    return float(min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(count - 1, 16)))
