"""The words of the command line. Standard library only: they are checked before anything is installed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from miniinfer.config import BACKENDS
from miniinfer.errors import BadInputError

NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$", re.ASCII | re.IGNORECASE)
MOST_QUOTED = 40  # characters of a wrong value that a sentence repeats


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that answers a mistake with one sentence (BadInputError) and no usage text."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = NUMBER  # argparse's own takes -1e-9 for an option

    def error(self, message: str) -> NoReturn:
        said = re.sub(r"^argument ([^:]+): ", r"\1: ", message)
        if said.endswith(": expected one argument"):
            name = said.partition(":")[0]
            said += f"; a value that begins with - is written {name}=VALUE"
        raise BadInputError(f"{said} (see: {self.prog} --help).")


def quoted(text: str) -> str:
    """A value as a sentence repeats it: its beginning, if it is long."""
    return repr(text if len(text) <= MOST_QUOTED else text[: MOST_QUOTED - 1] + "…")


def whole(text: str) -> int:
    """A whole number in plain digits. Raises ArgumentTypeError with the end of a sentence."""
    try:
        if re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII):
            return int(text)
    except ValueError:  # Python reads 4,300 digits at most
        pass
    raise argparse.ArgumentTypeError(f"must be a whole number, not {quoted(text)}")


def real(text: str) -> float:
    """A number. Raises ArgumentTypeError with the end of a sentence."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {quoted(text)}") from None


def valid_text(text: str) -> str:
    """Text that can be encoded. Raises ArgumentTypeError: bytes from the shell that are not UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("must be UTF-8 text; check your terminal's encoding") from None
    return text


def id_list(text: str) -> tuple[int, ...]:
    """Token ids as in 1,2,3. Raises ArgumentTypeError with the end of a sentence."""
    try:
        ids = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be token ids as in 1,2,3 and not {quoted(text)}") from None
    if min(ids) < 0:
        raise argparse.ArgumentTypeError(f"must be token ids of 0 or more, not {quoted(text)}")
    return ids


def head(text: str) -> tuple[int, int]:
    """A layer and a head as in 12.3. Raises ArgumentTypeError with the end of a sentence."""
    found = re.fullmatch(r"(\d+)\.(\d+)", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be layer.head as in 12.3, both from 0, and not {quoted(text)}")
    return int(found[1]), int(found[2])


def add_model_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", metavar="M", type=valid_text,
        help="a name that `models` lists (the default is SmolLM2-135M-Instruct), a GGUF file or a Hugging Face folder",
    )  # fmt: skip


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Where the weights lie and in what precision."""
    parser.add_argument(
        "--device", metavar="D", default="auto", choices=("auto", "cpu", "cuda", "mps"),
        help="auto (the default: the first of cuda, mps, cpu that is there), cpu, cuda or mps",
    )  # fmt: skip
    parser.add_argument(
        "--dtype", metavar="T", default="float32", choices=("float32", "bfloat16", "packed"),
        help="float32 (the default), bfloat16, or packed: keep the 4-bit blocks of a GGUF file (CPU only)",
    )  # fmt: skip
    parser.add_argument(
        "--backend", metavar="B", default="auto", choices=tuple(BACKENDS),
        help="torch, native (the compiled core, built first if need be), graph (torch, decode steps in memory that is "
        "used again, on CUDA as captured graphs), or auto (the default: native if it is built, else torch)",
    )  # fmt: skip


def separate_rest(arguments: Sequence[str], commands: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off what belongs to another program: all that follows one of `commands`, if that is the first word."""
    if arguments and arguments[0] in commands and arguments[1:2] not in (["-h"], ["--help"]):
        return list(arguments[:1]), list(arguments[1:])
    return list(arguments), []
