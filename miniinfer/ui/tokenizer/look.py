"""What all views of the tokenizer page look at: a tokenizer, a text, and everything that became of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pandas as pd
import streamlit as st

from miniinfer.errors import BadInputError, MiniInferError
from miniinfer.figures.palette import Palette, palette
from miniinfer.figures.tokenizer.tables import MOST_ROWS
from miniinfer.models.chat import ChatTemplate
from miniinfer.models.chat_typed import typed_range
from miniinfer.models.display import visible
from miniinfer.models.registry import DEFAULT_MODEL, MODELS
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.provenance import Provenance
from miniinfer.tokenization.encoding import Encoding, encode_parts
from miniinfer.tokenization.segments import SegmentPlace, segments_of
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.run import Run
from miniinfer.ui.sessions.session import Session
from miniinfer.ui.table_twin import draw_table_twin
from miniinfer.ui.tokens import MAX_PROMPT_CHARACTERS

T = TypeVar("T")


@dataclass(frozen=True)
class TextSide:
    """The part of a model that needs no weights. name: the model's."""

    name: str
    tokenizer: Tokenizer
    template: ChatTemplate | None


@dataclass(frozen=True)
class Wanted:
    """A text and how it is meant. chat: it becomes one message of the chat template. parse_special: spelled control
    tokens become the real ones; in a message they never do."""

    text: str
    chat: bool
    parse_special: bool


@dataclass(frozen=True)
class TextLook:
    """typed: byte offsets of what the user wrote, None where the chat template changes it."""

    session: Session
    run: Run
    side: TextSide
    wanted: Wanted
    encoding: Encoding
    segments: list[SegmentPlace]
    typed: tuple[int, int] | None

    @property
    def tokenizer(self) -> Tokenizer:
        return self.side.tokenizer

    def text(self, token_id: int) -> str:
        """A token's text with every character visible."""
        return visible(self.tokenizer.display(token_id))

    @property
    def colours(self) -> Palette:
        return palette(dark=st.context.theme.type == "dark")


def text_side(session: Session) -> TextSide:
    """Of the model of the run in view, or of the chosen one; from its file alone while that model is being loaded.

    Raises MiniInferError with the sentence that the page shows in its place.
    """
    run = session.timeline.current
    model: Any = run.engine.model if isinstance(run, LiveRun) else session.model
    if model is not None:
        return TextSide(model.name, model.tokenizer, model.chat_template)
    source = session.key.source
    entry = MODELS.get(source or DEFAULT_MODEL)
    if entry is not None and not entry.path.exists():
        raise MiniInferError(f"The tokenizer lies in the model's file, which is not there yet. {session.status.text}")
    return read_text_side(source)


@st.cache_resource(show_spinner=False, max_entries=4)
def read_text_side(source: str | None) -> TextSide:
    """In 0.4 s, without weights. Raises MiniInferError."""
    tokenizer, template = load_tokenizer(source)
    return TextSide(source or DEFAULT_MODEL, tokenizer, template)


def look_at(session: Session, run: Run, side: TextSide, wanted: Wanted) -> TextLook:
    """Encode the text, or take what was made of it last. Raises BadInputError."""
    encoding, segments, typed = remembered("text", side.tokenizer, wanted, lambda: encode(side, wanted))
    return TextLook(session, run, side, wanted, encoding, segments, typed)


def remembered(name: str, owner: object, question: object, answer: Callable[[], T]) -> T:
    """The answer to this question about `owner` (a tokenizer, a model), as it was given last in this session. The
    owner is not kept in memory by it."""
    memo = st.session_state.get(f"tokenizer_{name}_memo")
    if memo is None or memo[0]() is not owner or memo[1] != question:
        memo = (weakref.ref(owner), question, answer())
        st.session_state[f"tokenizer_{name}_memo"] = memo
    return cast(T, memo[2])


def draw_rows(make: Callable[[int | None], pd.DataFrame], count: int, key: str, file_name: str) -> None:
    """The table twin of something with `count` rows. make: gives so many of them, or all; what is saved has all."""
    if count > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS:,} of {count:,} rows stand here; the saved files have all of them.")
    draw_table_twin(make(MOST_ROWS), key, Provenance.COMPUTED, file_name, csv=lambda: make(None))


def encode(side: TextSide, wanted: Wanted) -> tuple[Encoding, list[SegmentPlace], tuple[int, int] | None]:
    """The ids are those that a run of this text is fed. Raises BadInputError."""
    text = wanted.text
    if len(text) > MAX_PROMPT_CHARACTERS:
        raise BadInputError(f"The text has {len(text):,} characters; at most {MAX_PROMPT_CHARACTERS:,} fit here.")
    if not wanted.chat:
        start = _start_token(side.tokenizer, text, wanted.parse_special)
        encoding = encode_parts(side.tokenizer, [*start, (text, wanted.parse_special)])
        typed = (len(start[0][0].encode()) if start else 0, len(encoding.raw))
        return encoding, segments_of(encoding, typed), typed
    if side.template is None:
        raise BadInputError(f"{side.name} has no chat template; choose raw prompt.")
    messages = [{"role": "user", "content": text}]
    rendered = side.template.render(messages)
    encoding = encode_parts(side.tokenizer, [(segment.text, segment.control) for segment in rendered])
    inside = typed_range(side.template, messages, 0)
    return encoding, segments_of(encoding, inside), inside


def _start_token(tokenizer: Tokenizer, text: str, parse_special: bool) -> list[tuple[str, bool]]:
    """What a raw prompt gets in front if the model's file asks for it and the text does not begin with it."""
    vocabulary = tokenizer.vocabulary
    if not vocabulary.add_bos or vocabulary.bos_id is None:
        return []
    begins = tokenizer.encode(text, parse_special=parse_special)[:1] == [vocabulary.bos_id]
    return [] if begins else [(vocabulary.tokens[vocabulary.bos_id], True)]
