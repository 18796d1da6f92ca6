"""Names of the files that the app gives away, as the browser's own exports have them."""

from __future__ import annotations

import re

MOST_LETTERS = 40


def file_name(*parts: object) -> str:
    """Letters and digits of any script, lower case, joined by "-" in a part and "_" between parts; never empty."""
    words = ("-".join(re.findall(r"[^\W_]+", str(part).lower()))[:MOST_LETTERS].rstrip("-") for part in parts)
    return "_".join(word for word in words if word) or "run"
