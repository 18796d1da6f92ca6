"""`run` for others: what must be given, where the pass phrase comes from, and what is handed on."""

import argparse
import io
import json

import pytest

from miniinfer.cli import hosting_options
from miniinfer.cli.main import main
from miniinfer.cli.run import add_arguments
from miniinfer.errors import BadInputError
from miniinfer.passphrase import matches


def options(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.delenv(hosting_options.VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())


def test_for_oneself_nothing_is_asked():
    given = options()
    hosting_options.check(given)
    assert hosting_options.hosting_of(given).guarded is False


@pytest.mark.parametrize(("arguments", "said"), [
    (["--host", "0.0.0.0"], "say under which names, with --allow-host"),
    (["--host", "0.0.0.0", "--allow-host", "http://class.test"], "is no name or address"),
    (["--host", "0.0.0.0", "--allow-host", "class.test:80"], "is no name or address"),
    (["--host", "0.0.0.0", "--allow-host", "*"], "is no name or address"),
    (["--host", "0.0.0.0", "--allow-host", "class.test"], "cannot be asked for here: put it into MINIINFER_PASSPHRASE"),
    (["--allow-host", "class.test"], "cannot be asked for here"),
    (["--passphrase-file", "x"], "of use with --allow-host only"),
    (["--allow-host", "class.test", "--passphrase-file", "/no/such"], "cannot be read from /no/such"),
])  # fmt: skip
def test_what_is_missing_is_one_sentence_before_anything_starts(arguments, said, capsys):
    assert main(["run", *arguments]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert said in shown.err


def test_from_the_variable_or_the_first_line_of_a_file(monkeypatch, tmp_path):
    (tmp_path / "phrase").write_text("from a file \r\nsecond line")
    given = options("--host", "0.0.0.0", "--allow-host", "class.test", "--passphrase-file", str(tmp_path / "phrase"))
    hosting_options.check(given)
    assert matches("from a file ", hosting_options.hosting_of(given).verifier)
    (tmp_path / "phrase").write_text("from Windows", "utf-8-sig")
    assert matches("from Windows", hosting_options.hosting_of(given).verifier)
    monkeypatch.setenv(hosting_options.VARIABLE, "from the variable")
    given = options("--allow-host", "class.test", "--allow-host", "10.0.0.1", "--allow-host", "fe80::1")
    hosting_options.check(given)
    told = hosting_options.hosting_of(given)
    assert matches("from the variable", told.verifier)
    assert "from the variable" not in json.dumps(told.to_json())
    names = ["class.test", "10.0.0.1", "fe80::1"]
    assert hosting_options.allowed_hosts(given) == [*names, "127.0.0.1", "localhost", "::1"]


def test_a_prompt_asks_twice(monkeypatch):
    said = iter(["long enough", "long enough", "long enough", "another one", "short"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(said))
    given = options("--allow-host", "class.test")
    assert matches("long enough", hosting_options.hosting_of(given).verifier)
    with pytest.raises(BadInputError, match="two different"):
        hosting_options.hosting_of(given)
    with pytest.raises(BadInputError, match="from 8 to 256"):
        hosting_options.hosting_of(given)
