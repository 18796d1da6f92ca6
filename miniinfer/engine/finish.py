"""When a sequence is done, and how its output reads up to there."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from miniinfer.config import SamplingParams


def finish_reason(
    output_ids: Sequence[int],
    num_tokens: int,
    params: SamplingParams,
    stop_ids: AbstractSet[int],
    token_bytes: Sequence[bytes],
    context_length: int,
) -> str | None:
    """Why a sequence ends here, or None if it goes on.

    num_tokens counts prompt and output. The newest token needs no place in the cache until the next step, so the output
    may go one token past the context: prompt + new - 1 positions must fit.
    """
    if output_ids and (output_ids[-1] in stop_ids or output_ids[-1] in params.stop_ids):
        return "stop"
    if output_ids and newest_token_completes_stop(output_ids, params.stop, token_bytes):
        return "stop"
    if len(output_ids) >= params.max_new_tokens:
        return "length"
    if num_tokens > context_length:
        return "context"
    return None


def newest_token_completes_stop(output_ids: Sequence[int], stop: Sequence[str], token_bytes: Sequence[bytes]) -> bool:
    """True if a stop string ends inside the newest token. Compared as bytes, for one character may be spread over
    several tokens, and one stop string over many."""
    newest = token_bytes[output_ids[-1]]
    if not stop or not newest:
        return False
    spellings = [text.encode() for text in stop]
    longest = max(map(len, spellings))
    before = b""
    for token_id in reversed(output_ids[:-1]):
        if len(before) >= longest - 1:
            break
        before = token_bytes[token_id] + before
    text = before + newest
    return any(text.find(spelling, max(0, len(before) - len(spelling) + 1)) >= 0 for spelling in spellings)


def cut_at_stop(text: bytes, stop: Sequence[str]) -> bytes:
    """The output up to its first stop string, which does not belong to it."""
    starts = [start for spelling in stop if (start := text.find(spelling.encode())) >= 0]
    return text[: min(starts)] if starts else text
