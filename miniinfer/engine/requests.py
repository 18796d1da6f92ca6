"""What a request must be before anything runs."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from miniinfer.errors import BadInputError


def checked_prompt(prompt_ids: Iterable[int], vocab_size: int, context_length: int) -> list[int]:
    """The ids as a list, if there is at least one, all are in the vocabulary, and they fit into the context."""
    try:
        token_ids = [checked_id(token_id, vocab_size) for token_id in prompt_ids]
    except TypeError:
        raise BadInputError(f"A prompt is a list of token ids, not {prompt_ids!r}.") from None
    if not token_ids:
        raise BadInputError("The prompt has no tokens: give at least one.")
    if len(token_ids) > context_length:
        raise BadInputError(
            f"The prompt has {len(token_ids):,} tokens, but the context holds {context_length:,}: shorten the prompt."
        )
    return token_ids


def checked_id(token_id: int, vocab_size: int) -> int:
    try:
        if isinstance(token_id, bool):
            raise TypeError
        checked = operator.index(token_id)
    except TypeError:
        raise BadInputError(f"A token id is a whole number, not {token_id!r}.") from None
    if not 0 <= checked < vocab_size:
        raise BadInputError(f"Token id {checked} is not in the vocabulary, which ends at {vocab_size - 1}.")
    return checked


def checked_chunk(prefill_chunk: int | None) -> int | None:
    if prefill_chunk is None:
        return None
    if isinstance(prefill_chunk, bool) or not isinstance(prefill_chunk, int) or prefill_chunk < 1:
        raise BadInputError(f"prefill_chunk must be a whole number above 0, or left out, not {prefill_chunk!r}.")
    return prefill_chunk


def checked_context(wanted: int | None, most: int) -> int:
    """The context length to use: the model's own, or less."""
    if wanted is not None and wanted > most:
        raise BadInputError(f"This model's context holds {most:,} tokens: context_length cannot be {wanted:,}.")
    return wanted or most
