"""Finding tokens of the vocabulary by text or id."""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.trace.records import FloatArray

SIGNS = str.maketrans("␣↵⇥␍", " \n\t\r")  # as tokens are shown, so a text may be copied from the table


def search_tokens(texts: Sequence[str], query: str, probs: FloatArray) -> list[int]:
    """Ids of all tokens that fit, the best fit first, of equal ones the likeliest. texts, probs: [V].

    A number finds the token of that id. Then come tokens that are the text, with or without a space in front, those
    that begin with it and those that contain it; capitals make no difference in the last two.
    """
    if not query:
        return []
    query = query.translate(SIGNS)
    small = query.lower()
    fits: list[tuple[int, float, int]] = []
    for token_id, text in enumerate(texts):
        lower = text.lower()
        if small not in lower:
            continue
        if text == query:
            fit = 1
        elif text == " " + query:
            fit = 2
        else:
            fit = 3 if lower.startswith((small, " " + small)) else 4
        fits.append((fit, -float(probs[token_id]), token_id))
    found = [token_id for _, _, token_id in sorted(fits)]
    number = query.strip()
    if number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(texts):
        found = [int(number), *(i for i in found if i != int(number))]
    return found
