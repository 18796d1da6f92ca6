"""Between text and tokens for the panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniinfer.errors import BadInputError
from miniinfer.trace.records import TokenInfo

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel
    from miniinfer.models.tokenizer import Tokenizer

MAX_PROMPT_CHARACTERS = 100_000


def encode_prompt(model: LoadedModel, prompt: str, *, chat: bool, most: int | None = None) -> list[int]:
    """Ids of a raw prompt (see Tokenizer.encode_prompt) or of one chat message (they stay text).

    most: how many whoever hosts the app allows. Raises BadInputError.
    """
    ids = _encode(model, prompt, chat=chat)
    if most is not None and len(ids) > most:
        raise BadInputError(f"The prompt has {len(ids):,} tokens, and on this server it may have {most:,}: shorten it.")
    return ids


def _encode(model: LoadedModel, prompt: str, *, chat: bool) -> list[int]:
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise BadInputError(f"The prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} fit here.")
    if not chat:
        if not prompt:
            raise BadInputError("The prompt is empty; type at least one character, or choose chat.")
        return model.tokenizer.encode_prompt(prompt)
    if model.chat_template is None:
        raise BadInputError(f"{model.name} has no chat template; choose raw prompt.")
    from miniinfer.models.chat import encode_chat

    return encode_chat(model.tokenizer, model.chat_template, [{"role": "user", "content": prompt}])


def describe_token(model: LoadedModel, token_id: int) -> TokenInfo:
    """The token as a thing to show. Raises BadInputError if the vocabulary has no such id."""
    if not 0 <= token_id < len(model.token_bytes):
        raise BadInputError(f"Token ids of this model run from 0 to {len(model.token_bytes) - 1}, not {token_id}.")
    return describe(model.tokenizer, token_id)


def describe(tokenizer: Tokenizer, token_id: int) -> TokenInfo:
    """The same from the vocabulary alone."""
    data = tokenizer.token_bytes(token_id)
    try:
        data.decode()
        partial = False
    except UnicodeDecodeError:
        partial = True
    return TokenInfo(token_id, tokenizer.display(token_id), data, tokenizer.is_special(token_id), partial)
