"""The default model's tokenizer, read without its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniinfer.models.chat import ChatTemplate
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def text_side(model_path: Path) -> tuple[Tokenizer, ChatTemplate]:
    tokenizer, template = load_tokenizer(model_path)
    assert template is not None
    return tokenizer, template


@pytest.fixture(scope="session")
def tokenizer(text_side: tuple[Tokenizer, ChatTemplate]) -> Tokenizer:
    return text_side[0]


@pytest.fixture(scope="session")
def template(text_side: tuple[Tokenizer, ChatTemplate]) -> ChatTemplate:
    return text_side[1]
