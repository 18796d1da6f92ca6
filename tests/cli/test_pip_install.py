"""A failed installation ends in one sentence with the way out, made from pip's own words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from miniinfer.cli.pip_install import refusal, run_quietly
from miniinfer.errors import FetchError, MiniInferError

RETRY = (
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken "
    "by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f>: Failed to establish a new "
    "connection: [Errno 111] Connection refused')': /simple/thing/\n"
)
NOT_OFFERED = (
    "ERROR: Could not find a version that satisfies the requirement thing==1.0 (from versions: none)\n"
    "ERROR: No matching distribution found for thing==1.0\n"
)


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (RETRY + NOT_OFFERED, FetchError, "the package index did not answer; connect to the network"),
        (NOT_OFFERED, FetchError, "thing==1.0 is not offered for Python 3"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", MiniInferError,
         "is full; free some space and start again"),
        (RETRY.replace("NewConnectionError", "SSLError(SSLCertVerificationError"), FetchError,
         "a certificate was not accepted"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n", FetchError, "a wrong hash"),
        ("ERROR: something new\n\n", MiniInferError, "pip could not install the packages: something new"),
        ("", MiniInferError, "it gave no reason"),
    ],
)  # fmt: skip
def test_the_sentence(said: str, kind: type[MiniInferError], sentence: str) -> None:
    error = refusal(said, Path("/somewhere/.venv"))
    assert type(error) is kind
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_errors_are_kept_and_stdout_stays_free(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = "import sys, os; print('progress'); print('why', file=sys.stderr); print(os.getcwd()); sys.exit(3)"
    assert run_quietly([sys.executable, "-c", script], tmp_path) == (3, "why\n")
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err == f"progress\n{tmp_path}\n"
