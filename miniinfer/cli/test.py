"""`test`: all tests of the project, browser tests included."""

from __future__ import annotations

import argparse
import os
import sys

from miniinfer.cli import bootstrap
from miniinfer.cli.browser import VARIABLE, find_chromium
from miniinfer.cli.hand_over import hand_over
from miniinfer.cli.output import ProgressLine
from miniinfer.models.fetch import ensure_default_model

SUMMARY = "run all tests; what follows is passed on to pytest"
FILES = bootstrap.TEST_FILES
# Without arguments all tests run, in two processes: many of them wait for a browser or a server. Each file stays in one
# of them, as its tests share a server and a model.
ALL = ["-n", "2", "--dist", "loadfile"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Example: python3 -m miniinfer test tests/engine -x"


def check(options: argparse.Namespace) -> None:
    """Anything may be meant for pytest."""


def run(options: argparse.Namespace) -> int:
    """Become pytest. The browser and the model are had first: a missing one must not look like a failing test."""
    root = bootstrap.project_root()
    chromium = find_chromium()
    with ProgressLine() as progress:
        ensure_default_model(progress)
    os.chdir(root)
    hand_over([sys.executable, "-m", "pytest", *(options.rest or ALL)], os.environ | {VARIABLE: chromium})
