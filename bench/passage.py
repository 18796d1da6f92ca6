"""The texts that the benches give the model: one sentence over and over, cut to a number of tokens."""

from __future__ import annotations

from miniinfer.models.tokenizer import Tokenizer

# The blank stands in front, as in the model's own tokens, so that the text of the ids is tokenized into the same ids.
SENTENCE = " The river runs down from the hills, past the old mill and the town, and comes to the sea in the evening."
# It has no end, and the model goes on with it for thousands of tokens; after a full stop it may end the text.
ENDLESS = " and the wheel goes round and round"


def passage(tokenizer: Tokenizer, length: int, sentence: str = SENTENCE) -> list[int]:
    """Exactly `length` token ids."""
    ids = tokenizer.encode(sentence, parse_special=False)
    return [ids[i % len(ids)] for i in range(length)]
