"""The command line: read the words, have the packages, run the subcommand, say errors in one sentence each."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from typing import Protocol

import miniinfer
from miniinfer.cli import batch, bench, bootstrap, generate, logits, models, recording, run, test, tokenize
from miniinfer.cli.arguments import Parser, separate_rest
from miniinfer.cli.output import as_utf8, close_broken_stdout, complain, open_closed_streams
from miniinfer.errors import BadInputError, MiniInferError

OK, FAILED, BAD_ARGUMENTS, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


class Subcommand(Protocol):
    """What each module of a subcommand has. It may import only the standard library until `run`."""

    @property
    def SUMMARY(self) -> str: ...

    @property
    def FILES(self) -> tuple[str, ...]:
        """The requirements files that it needs."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    def check(self, options: argparse.Namespace, /) -> None:
        """Refuse what can be refused before anything is installed or loaded."""
        ...

    def run(self, options: argparse.Namespace, /) -> int:
        """Do it; return the exit status."""
        ...


SUBCOMMANDS: dict[str, Subcommand] = {
    "run": run, "test": test, "generate": generate, "batch": batch, "tokenize": tokenize, "logits": logits,
    "models": models, "bench": bench, "recording": recording,
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run `arguments` (without the program's name); return the exit status: 2 for bad arguments, 1 for a failure."""
    open_closed_streams()
    as_utf8(sys.stdout)
    as_utf8(sys.stderr)
    try:
        return _main(arguments)
    except BadInputError as error:
        complain(error)
        return BAD_ARGUMENTS
    except MiniInferError as error:
        complain(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        close_broken_stdout()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        close_broken_stdout()
        complain(MiniInferError("The disk that the output goes to is full; free some space and start again."))
        return FAILED


def _main(arguments: Sequence[str]) -> int:
    ours, rest = separate_rest(arguments, ["test"])
    options = parser().parse_args(ours)
    options.rest = rest
    subcommand = SUBCOMMANDS[options.subcommand]
    subcommand.check(options)
    bootstrap.ensure(arguments, subcommand.FILES)
    status = subcommand.run(options)
    sys.stdout.flush()
    return status


def parser() -> Parser:
    """The parser of all subcommands."""
    top = Parser(
        prog="python3 -m miniinfer", allow_abbrev=False,
        description="Step through a real language model in the browser, or run it from here.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"MiniInfer {miniinfer.__version__}")
    choice = top.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)
    for name, module in SUBCOMMANDS.items():
        one = choice.add_parser(name, help=module.SUMMARY, description=module.SUMMARY, allow_abbrev=False)
        module.add_arguments(one)
    return top
