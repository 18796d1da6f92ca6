"""`models`: the models known by name, and getting one."""

from __future__ import annotations

import argparse
import sys

from miniinfer.cli import bootstrap
from miniinfer.cli.output import ProgressLine, table
from miniinfer.errors import BadInputError
from miniinfer.models.fetch import ensure_model
from miniinfer.models.registry import MODELS

SUMMARY = "list the models known by name, or fetch one"
FILES = bootstrap.RUN_FILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="fetch NAME")
    fetch = actions.add_parser("fetch", help="get a model's file and print its path", allow_abbrev=False)
    fetch.add_argument("name", metavar="NAME")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError for a name that is not known."""
    if options.action == "fetch" and options.name not in MODELS:
        raise BadInputError(f"There is no model called {options.name!r}; the known names are: {', '.join(MODELS)}.")


def run(options: argparse.Namespace) -> int:
    if options.action == "fetch":
        with ProgressLine() as progress:
            path = ensure_model(MODELS[options.name], progress)
        print(path)
        return 0
    rows = [("NAME", "LICENCE", "DOWNLOAD", "ON DISK", "FILE")]
    for entry in MODELS.values():
        place = str(entry.path) if entry.path.exists() else "not fetched yet"
        rows.append((entry.name, entry.licence, _mb(entry.download_bytes), _mb(entry.file_bytes), place))
    print(table(rows, right=(2, 3)))
    if sys.stdout.isatty():
        print("A path to a GGUF file or a Hugging Face folder can be given in place of a name.", file=sys.stderr)
    return 0


def _mb(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
