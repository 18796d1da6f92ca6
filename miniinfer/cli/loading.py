"""The model that the options ask for, loaded with progress, and the prompt in its tokens."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from miniinfer.cli.output import ProgressLine
from miniinfer.errors import BadInputError
from miniinfer.models.registry import MODELS

if TYPE_CHECKING:
    from miniinfer.models.chat import ChatTemplate
    from miniinfer.models.loader import LoadedModel
    from miniinfer.models.tokenizer import Tokenizer, TokenPiece


def check_model(options: argparse.Namespace) -> None:
    """Raises BadInputError for a model that is neither a known name nor there, before anything is installed."""
    from miniinfer.models.registry import resolve

    if options.model is not None and options.model not in MODELS:
        resolve(options.model)


def load(options: argparse.Namespace) -> LoadedModel:
    """Load the model (fetched first if it must be), with the thread settings that were found best."""
    from miniinfer.engine import threads

    threads.configure()  # before torch is imported

    from miniinfer.models.loader import load_model
    from miniinfer.native.choose import NATIVE, choose_backend

    with ProgressLine() as progress:
        model = load_model(options.model, device=options.device, dtype=options.dtype, progress=progress)
    NATIVE.look()
    backend = choose_backend(options.backend, model.weights)
    return dataclasses.replace(model, choose_backend=lambda _weights: backend)


def load_text(options: argparse.Namespace) -> tuple[Tokenizer, ChatTemplate | None]:
    """Tokenizer and chat template alone: no torch, no weights."""
    from miniinfer.models.text import load_tokenizer

    with ProgressLine() as progress:
        return load_tokenizer(options.model, progress)


def chat_pieces(tokenizer: Tokenizer, template: ChatTemplate | None, text: str) -> list[TokenPiece]:
    """One user message in the model's chat template, ready for the answer. Control tokens in it stay text."""
    from miniinfer.models.chat import encode_segments

    if template is None:
        raise BadInputError("This model has no chat template; leave --chat out.")
    return encode_segments(tokenizer, template.render([{"role": "user", "content": text}]))


def raw_pieces(tokenizer: Tokenizer, text: str) -> list[TokenPiece]:
    """A raw prompt, which means what it says: control tokens spelled in it are control tokens."""
    return tokenizer.pieces(tokenizer.encode_prompt(text))


def chat_ids(model: LoadedModel, text: str) -> list[int]:
    return [piece.token_id for piece in chat_pieces(model.tokenizer, model.chat_template, text)]


def raw_ids(model: LoadedModel, text: str) -> list[int]:
    return model.tokenizer.encode_prompt(text)
