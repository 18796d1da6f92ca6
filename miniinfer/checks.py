"""Checks of values that come from outside: each gives the value back as what it should be, or raises ValueError.

Whoever reads a file turns that into one sentence that names the file. Nothing here converts: a text that looks like a
number is no number.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

MOST_WHOLE = 2**63 - 1

T = TypeVar("T")


def whole(value: Any, least: int = 0, most: int = MOST_WHOLE) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limit = f"{least} to {most}" if most < MOST_WHOLE else f"{least} or more"
        raise ValueError(f"a whole number of {limit} was expected, not {str(value)[:40]!r}")
    return value


def real(value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number from `least` to `most`."""
    found = as_float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not math.isfinite(found):
        raise ValueError(f"a finite number was expected, not {reprlib.repr(value)}")
    if not least <= value <= most:
        raise ValueError(f"a number of {least} to {most} was expected, not {value!r}")
    return found


def as_float(value: float) -> float:
    """Infinite for a whole number that no float can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def logprob(value: Any) -> float:
    """A forced token may have been cut by every filter: its log probability is the text "-inf". Only a rounding can be
    above 0."""
    return -math.inf if value == "-inf" else real(value, most=1e-3)


def true_or_false(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false was expected, not {str(value)[:40]!r}")
    return value


def text(value: Any, most: int) -> str:
    """At most `most` characters, and such as can be written: half a surrogate pair cannot."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"a text of at most {most} characters was expected")
    value.encode()
    return value


def array(value: Any, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ValueError(f"a list of {least} to {most} entries was expected")
    return value


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object was expected")
    return value


def exactly(value: Any, names: set[str]) -> dict[str, Any]:
    """An object with these fields and no other."""
    found = mapping(value)
    if set(found) != names:
        raise ValueError(f"fields are missing or unknown: {', '.join(sorted(map(str, set(found) ^ names)))[:80]}")
    return found


def maybe(check: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else check(value)


def one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"one of {', '.join(allowed)} was expected")
        return value

    return check
