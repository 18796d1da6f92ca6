"""`run` for others than oneself: an address that they can reach takes the names it is called by and a pass phrase.

Standard library only: it is checked before anything is installed.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

from miniinfer import hosting
from miniinfer.errors import BadInputError
from miniinfer.hosting import Hosting
from miniinfer.passphrase import make_verifier

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ALL_ADDRESSES = ("0.0.0.0", "::")
VARIABLE = "MINIINFER_PASSPHRASE"
# The allocator of Linux keeps what thirty people have let go in pieces that nobody can use: large blocks go back to the
# system at once, and threads share two arenas. Read by no other system.
ALLOCATOR = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(2**20), "MALLOC_TRIM_THRESHOLD_": str(2**20)}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]*:[0-9a-f:.]*", re.IGNORECASE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default=LOOPBACK[0], metavar="ADDRESS",
        help="listen there; the default is 127.0.0.1, this machine alone. Another one needs --allow-host and a pass "
        f"phrase, which is asked for, or taken from {VARIABLE} or --passphrase-file",
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name or address by which the browsers call this app (again for more); others are refused",
    )
    parser.add_argument("--passphrase-file", metavar="FILE", help="the pass phrase is the first line of this file")
    parser.add_argument("--log-text", action="store_true", help="prompts may stand in the log; they do not otherwise")


def is_guarded(options: argparse.Namespace) -> bool:
    """Whether others can reach the app: at this address, or through a proxy on this machine that calls it so."""
    return options.host not in LOOPBACK or bool(options.allow_host)


def check(options: argparse.Namespace) -> None:
    """Raises BadInputError for what can be refused before anything starts."""
    if not is_guarded(options):
        if options.passphrase_file is not None:
            raise BadInputError("--passphrase-file is of use with --allow-host only: name what the app is called by.")
        return
    if not options.allow_host:
        raise BadInputError(
            f"--host {options.host} lets others reach the app: say under which names, with --allow-host NAME for each "
            "(the name or address that stands in their browsers), or leave --host out."
        )
    for name in options.allow_host:
        if not _NAME.fullmatch(name):
            raise BadInputError(f"--allow-host {name!r} is no name or address; give it without http:// and port.")
    if options.passphrase_file is not None:
        _from_file(options.passphrase_file)
    elif VARIABLE not in os.environ and not sys.stdin.isatty():
        raise BadInputError(
            f"The pass phrase cannot be asked for here: put it into {VARIABLE}, or name a file with --passphrase-file."
        )


def hosting_of(options: argparse.Namespace) -> Hosting:
    """What the app is told. Asks for the pass phrase if it must. Raises BadInputError."""
    made = hosting.guarded(make_verifier(_phrase(options))) if is_guarded(options) else Hosting()
    return replace(made, log_text=options.log_text, device=options.device, dtype=options.dtype)


def allowed_hosts(options: argparse.Namespace) -> list[str]:
    """The given names, and this machine's own: `run` itself asks whether the app has started."""
    return [*options.allow_host, *LOOPBACK]


def reached_at(host: str) -> str:
    """The address at which this machine reaches an app that listens at `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def said_to_host(options: argparse.Namespace, port: int) -> str:
    """What whoever started it should know now."""
    names = ", ".join(options.allow_host)
    return (
        f"Others reach it as {names} (port {port}, or that of your proxy) with the pass phrase. Without a proxy that "
        "speaks TLS, phrase and pages travel unencrypted; docs/classroom.md says how to set one up."
    )


def _phrase(options: argparse.Namespace) -> str:
    if options.passphrase_file is not None:
        return _from_file(options.passphrase_file)
    if (given := os.environ.get(VARIABLE)) is not None:
        return given
    try:
        first = getpass.getpass("Pass phrase for this server: ")
        make_verifier(first)
        if getpass.getpass("Again: ") != first:
            raise BadInputError("These were two different phrases; start again.")
    except EOFError as error:
        raise BadInputError("No pass phrase was given; start again.") from error
    return first


def _from_file(name: str) -> str:
    try:
        return Path(name).expanduser().read_text("utf-8-sig").split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"The pass phrase cannot be read from {name} ({error}).") from error
