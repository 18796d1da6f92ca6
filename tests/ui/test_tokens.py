"""From the prompt field to ids: limits, both kinds of prompt, line ends, and how single tokens are shown."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from miniinfer.errors import BadInputError
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.ui.tokenizer.look import TextSide, Wanted, encode
from miniinfer.ui.tokens import MAX_PROMPT_CHARACTERS, describe_token, encode_prompt


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("a\nb", [81, 198, 82]),  # what a browser's text field gives for a pasted "a\r\nb"
        ("a\r\nb", [81, 201, 198, 82]),  # what a script may give: nothing is normalised, and the CR is a token to see
        ("a\r\n", [81, 2738]),
        ("\r\n", [2738]),
        ("The quick brown fox", [504, 2365, 6354, 16438]),
        ("The quick brown fox ", [504, 2365, 6354, 16438, 216]),
        (" ", [216]),
    ],
)  # fmt: skip
def test_text_is_encoded_as_it_is(model, text, ids):
    assert encode_prompt(model, text, chat=False) == ids
    assert b"".join(describe_token(model, i).data for i in ids) == text.encode()


def test_an_empty_raw_prompt_is_refused_an_empty_message_is_not(model):
    with pytest.raises(BadInputError, match="empty"):
        encode_prompt(model, "", chat=False)
    assert len(encode_prompt(model, "", chat=True)) == 30


def test_control_tokens_are_parsed_in_a_raw_prompt_and_stay_text_in_a_chat_message(model):
    end = model.tokenizer.token_id("<|im_end|>")
    assert encode_prompt(model, "Hi<|im_end|>", chat=False).count(end) == 1
    of_the_template = encode_prompt(model, "Hi", chat=True).count(end)
    assert encode_prompt(model, "Hi<|im_end|>", chat=True).count(end) == of_the_template


@pytest.mark.parametrize("chat", [False, True])
def test_the_limit_of_characters_is_exact(model, chat):
    with pytest.raises(BadInputError, match=r"100,001 characters; at most 100,000"):
        encode_prompt(model, "a" * (MAX_PROMPT_CHARACTERS + 1), chat=chat)
    assert encode_prompt(model, "a " * (MAX_PROMPT_CHARACTERS // 2), chat=chat)


def test_a_model_without_chat_template_says_so(model):
    from dataclasses import replace

    with pytest.raises(BadInputError, match="no chat template"):
        encode_prompt(replace(model, chat_template=None), "Hi", chat=True)


def test_every_token_can_be_shown_and_an_unknown_id_is_a_sentence(model):
    emoji = encode_prompt(model, "🦜", chat=False)
    assert len(emoji) == 3
    shown = [describe_token(model, i) for i in emoji]
    assert all(t.partial and not t.control for t in shown)
    assert b"".join(t.data for t in shown).decode() == "🦜"
    assert describe_token(model, 0).control
    assert [describe_token(model, i).token_id for i in range(model.config.vocab_size)] == list(range(49152))
    for wrong in (-1, 49152, 2**31 - 1):
        with pytest.raises(BadInputError, match="0 to 49151"):
            describe_token(model, wrong)


def test_a_start_token_that_the_file_asks_for_is_put_in_front_once(model):
    """In runs, and on the page that shows their tokens."""
    asks = Tokenizer(replace(model.tokenizer.vocabulary, add_bos=True), model.tokenizer.vocab_size, "asks")
    other = SimpleNamespace(tokenizer=asks, name="asks")
    for text, ids in (("Hello", [1, 19556]), ("<|im_start|>Hello", [1, 19556])):
        assert encode_prompt(other, text, chat=False) == ids
        encoding, segments, typed = encode(TextSide("asks", asks, None), Wanted(text, False, True))
        assert encoding.ids == ids
        assert [s.writer for s in segments] == ["control", "typed"]
        assert encoding.raw[slice(*typed)].decode().endswith("Hello")
