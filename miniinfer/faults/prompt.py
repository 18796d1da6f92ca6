"""A prompt that begins twice: the chat template writes the first token, and the tokenizer adds it again."""

from __future__ import annotations


def first_token_doubled(ids: list[int]) -> list[int]:
    return [*ids[:1], *ids]
