"""Chat messages to tokens, by the template that comes with the model.

A message may contain the spelling of a control token, and must not become one. So each spelling in a message is broken
by a mark (a character that occurs nowhere else) before the template runs. What is a control token in the rendered text
was therefore written by the template; the marks are taken out of the rest, which is encoded as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from miniinfer.errors import BadInputError
from miniinfer.models.template_sandbox import SANDBOX
from miniinfer.models.tokenizer import Tokenizer, TokenPiece

Message = Mapping[str, str]  # role and content

MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # code points that no text may contain


class _RefusedError(Exception):
    """The template raised; its reason."""


@dataclass(frozen=True)
class Segment:
    """A part of the rendered prompt: one control token, or plain text in which no control token is to be found."""

    text: str
    control: bool


class ChatTemplate:
    """A Jinja template; it runs in a process of its own (template_process.py). control_tokens: all spellings of the
    tokenizer. Raises BadInputError if the template cannot be read."""

    def __init__(
        self, source: str, *, control_tokens: Sequence[str] = (), bos_token: str = "", eos_token: str = ""
    ) -> None:
        self.source = source
        self._control_tokens = tuple(sorted(filter(None, control_tokens), key=len, reverse=True))
        self._control = re.compile("|".join(map(re.escape, self._control_tokens)) or r"(?!)")
        self._constants = {"bos_token": bos_token, "eos_token": eos_token}
        answer = SANDBOX.ask({"source": source})
        if "unreadable" in answer:
            raise BadInputError(f"The model's chat template cannot be read: {answer['unreadable']}.")

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> list[Segment]:
        """The prompt in order. Raises BadInputError that names the role if the template refuses a message, or says that
        it was stopped because it took too much time or memory."""
        for message in messages:
            if not {"role", "content"} <= set(message) or not all(isinstance(text, str) for text in message.values()):
                raise BadInputError("A chat message needs a role and a content, both text.")
        mark = self._unused_mark(messages)
        safe = [{key: self._break_up(value, mark) for key, value in message.items()} for message in messages]
        try:
            rendered = self._run(safe, add_generation_prompt)
        except _RefusedError as error:
            raise BadInputError(self._refusal(safe, error).replace(mark, "")) from error
        return self._segments(rendered, mark)

    def text(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The rendered prompt as one string, for showing."""
        return "".join(segment.text for segment in self.render(messages, add_generation_prompt))

    def _run(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        variables = {"messages": messages, "add_generation_prompt": add_generation_prompt} | self._constants
        answer = SANDBOX.ask({"source": self.source, "variables": variables})
        if "text" not in answer:
            raise _RefusedError(answer.get("refused") or answer.get("unreadable"))
        return answer["text"]

    def _refusal(self, messages: Sequence[Message], error: BaseException) -> str:
        """Which message was refused: the last one of the shortest beginning that the template refuses."""
        reason = str(error)
        for count in range(1, len(messages) + 1):
            try:
                self._run(messages[:count], False)
            except _RefusedError:
                role = messages[count - 1]["role"]
                return f"The model's chat template refuses message {count} (role {role!r}): {reason}."
        roles = ", ".join(message["role"] for message in messages) or "none"
        return f"The model's chat template refuses these messages (roles: {roles}): {reason}."

    def _unused_mark(self, messages: Sequence[Message]) -> str:
        texts = [self.source, *(value for message in messages for value in message.values())]
        for mark in MARKS:
            if not any(mark in text for text in texts):
                return mark
        raise BadInputError("The messages hold all of the code points U+FDD0 to U+FDEF, which no text may contain.")

    def _break_up(self, text: str, mark: str) -> str:
        """A mark after the first character of every control token, also of one that the text may only begin."""
        text = self._control.sub(lambda found: found.group()[0] + mark + found.group()[1:], text)
        for length in range(min(len(text), max(map(len, self._control_tokens), default=0)), 0, -1):
            if any(token.startswith(text[-length:]) for token in self._control_tokens):
                return text[:-length] + text[-length] + mark + text[len(text) - length + 1 :]
        return text

    def _segments(self, rendered: str, mark: str) -> list[Segment]:
        segments, place = [], 0
        for found in self._control.finditer(rendered):
            segments.append(Segment(rendered[place : found.start()].replace(mark, ""), False))
            segments.append(Segment(found.group(), True))
            place = found.end()
        segments.append(Segment(rendered[place:].replace(mark, ""), False))
        return [segment for segment in segments if segment.text]


def encode_chat(
    tokenizer: Tokenizer, template: ChatTemplate, messages: Sequence[Message], add_generation_prompt: bool = True
) -> list[int]:
    """The ids that the model is fed for these messages. The template is the whole truth: no start token is added."""
    return [piece.token_id for piece in encode_segments(tokenizer, template.render(messages, add_generation_prompt))]


def encode_segments(tokenizer: Tokenizer, segments: Sequence[Segment]) -> list[TokenPiece]:
    """The tokens of rendered segments, with byte offsets in the rendered text."""
    pieces: list[TokenPiece] = []
    for segment in segments:
        start = pieces[-1].end if pieces else 0
        control_id = tokenizer.token_id(segment.text) if segment.control else None
        ids = tokenizer.encode(segment.text, parse_special=False) if control_id is None else [control_id]
        pieces += tokenizer.pieces(ids, start)
    return pieces
