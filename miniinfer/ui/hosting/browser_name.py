"""The made-up name of a browser, in a cookie of its own: on a server that is open to others each lists its own runs."""

from __future__ import annotations

import re
import secrets

COOKIE = "miniinfer_browser"  # components/transport/browser.js writes it where no guard does
GOOD_FOR_SECONDS = 365 * 24 * 3600
_NAME = re.compile(r"[\w-]{12}", re.ASCII)


def is_browser_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def new_browser_name() -> str:
    return secrets.token_urlsafe(9)
