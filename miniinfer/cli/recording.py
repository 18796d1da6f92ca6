"""`recording`: a run file checked, summed up, and made into a web page, without a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from miniinfer.cli import bootstrap
from miniinfer.errors import BadInputError

SUMMARY = "check a run file and say what is in it, or make a web page of it"
FILES = bootstrap.RUN_FILES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a run file (.npz) as the page Runs saves it")
    parser.add_argument("--html", metavar="OUT", type=Path, help="write the run as one HTML file that steps offline")


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError if there is no such file, or OUT is there already."""
    if not options.file.is_file():
        raise BadInputError(f"There is no file {options.file}.")
    if options.html is not None and options.html.exists():
        raise BadInputError(f"{options.html} is there already: give another name, or move it away.")


def run(options: argparse.Namespace) -> int:
    from miniinfer.figures.offline_page import offline_page
    from miniinfer.models.display import visible
    from miniinfer.trace.files.format import load_trace

    found = load_trace(options.file)
    info, origin = found.info, found.origin
    tokens = "".join(token.text for token in found.tokens[info.num_prompt_tokens :])
    made = " ".join(part for part in (origin.by and f"by {origin.by}", origin.at and f"at {origin.at}") if part)
    rows = [
        ("name", info.name), ("model", f"{info.model_name} on {info.device} in {info.dtype}"),
        ("recorded", made or "(the file does not say)"), ("prompt", info.prompt), ("output", tokens),
        ("steps", f"{len(found.steps)}, ended: {found.finish_reason or 'not yet'}"),
        ("attention", "all rows" if found.complete else "chosen rows, for the run is long"),
    ]
    for name, value in rows:
        print(f"{name:10} {visible(value).replace('␣', ' ')}")
    if options.html is not None:
        options.html.write_text(offline_page(found, min(1, len(found.steps))), encoding="utf-8")
        print(f"{'written':10} {options.html}, {options.html.stat().st_size:,} bytes")
    return 0
