"""Which part of a rendered chat prompt is what the user typed, and which part the template wrote.

A template may trim or repeat a message, so its text is not searched for: the message is rendered once more between two
marks that no text may contain, and counts as found only if the prompt is the same but for the marks.
"""

from __future__ import annotations

from collections.abc import Sequence

from miniinfer.errors import BadInputError
from miniinfer.models.chat import MARKS, ChatTemplate, Message


def typed_range(
    template: ChatTemplate, messages: Sequence[Message], place: int, add_generation_prompt: bool = True
) -> tuple[int, int] | None:
    """Byte offsets, in the rendered text, of the content of messages[place]; None if the template changes it.

    Raises BadInputError as ChatTemplate.render does.
    """
    plain = template.text(messages, add_generation_prompt)
    content = messages[place]["content"]
    inner = content.strip()
    at = content.find(inner)
    for before, typed, after in (("", content, ""), (content[:at], inner, content[at + len(inner) :])):
        mark = _unused(template, messages)
        marked = [dict(message) for message in messages]
        marked[place]["content"] = f"{before}{mark}{typed}{mark}{after}"
        try:
            pieces = template.text(marked, add_generation_prompt).split(mark)
        except BadInputError:  # the template looks at what a message is
            return None
        if len(pieces) == 3 and "".join(pieces) == plain:
            start = len(pieces[0].encode())
            return start, start + len(pieces[1].encode())
    return None


def _unused(template: ChatTemplate, messages: Sequence[Message]) -> str:
    """The last mark that is free; the template itself takes the first for its own purpose."""
    texts = [template.source, *(value for message in messages for value in message.values())]
    free = [mark for mark in MARKS if not any(mark in text for text in texts)]
    if len(free) < 2:
        raise BadInputError("The messages hold nearly all code points U+FDD0 to U+FDEF, which no text may contain.")
    return free[-1]
