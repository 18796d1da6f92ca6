"""`tokenize`: a text in the model's tokens."""

from __future__ import annotations

import argparse

from miniinfer.cli import bootstrap, loading
from miniinfer.cli.arguments import add_model_option, valid_text
from miniinfer.cli.output import table, write_json

SUMMARY = "show a text in the model's tokens"
FILES = bootstrap.RUN_FILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", type=valid_text)
    add_model_option(parser)
    parser.add_argument("--chat", action="store_true", help="put the text into the chat template as a message")
    parser.add_argument("--json", action="store_true", help="one line: a list of the tokens")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError for a model that is not there."""
    loading.check_model(options)


def run(options: argparse.Namespace) -> int:
    from miniinfer.models.display import visible

    tokenizer, template = loading.load_text(options)
    if options.chat:
        pieces = loading.chat_pieces(tokenizer, template, options.text)
    else:
        pieces = loading.raw_pieces(tokenizer, options.text)
    if options.json:
        write_json(
            [
                {
                    "id": piece.token_id,
                    "token_str": tokenizer.display(piece.token_id),
                    "bytes": piece.token_bytes.hex(),
                    "start": piece.start,
                    "end": piece.end,
                    "special": piece.special,
                }
                for piece in pieces
            ]
        )
        return 0
    rows = [("ID", "TOKEN", "BYTES", "START", "END", "")]
    for piece in pieces:
        shown = visible(tokenizer.display(piece.token_id))
        place = (str(piece.start), str(piece.end))
        rows.append((str(piece.token_id), shown, piece.token_bytes.hex(" "), *place, "control" * piece.special))
    print(table(rows, right=(0, 3, 4)))
    return 0
