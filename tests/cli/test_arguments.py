"""Bad arguments: exit status 2, one sentence on stderr, nothing on stdout, and nothing was installed or loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniinfer.cli.bootstrap import project_root
from miniinfer.cli.main import main

BAD = {
    "no subcommand": ([], "SUBCOMMAND"),
    "an unknown one": (["dance"], "dance"),
    "no prompt": (["generate"], "PROMPT"),
    "an empty prompt": (["generate", ""], "The prompt is empty"),
    "an option that there is not": (["generate", "Hi", "--topk", "3"], "--topk"),
    "an option cut short": (["generate", "Hi", "--temp", "1"], "--temp"),
    "text for a number": (["generate", "Hi", "--top-k", "many"], "--top-k: must be a whole number, not 'many'"),
    "half a number": (["generate", "Hi", "--seed", "1.5"], "--seed: must be a whole number"),
    "a temperature below 0": (["generate", "Hi", "--temperature", "-1"], "temperature must be 0 (greedy) or more"),
    "a temperature that is no number": (["generate", "Hi", "--temperature", "nan"], "must be a finite number"),
    "top-p of 0": (["generate", "Hi", "--top-p", "0"], "top_p must be above 0"),
    "min-p of 1": (["generate", "Hi", "--min-p", "1"], "min_p must be at least 0 and below 1"),
    "a penalty of 0": (["generate", "Hi", "--repetition-penalty", "0"], "repetition_penalty must be above 0"),
    "an endless penalty": (["generate", "Hi", "--presence-penalty", "inf"], "presence_penalty must be a finite number"),
    "a small temperature below 0": (["generate", "Hi", "--temperature", "-1e-9"], "temperature must be 0 (greedy) or"),
    "digits of another script": (["generate", "Hi", "--seed", "１２"], "--seed: must be a whole number, not '１２'"),
    "a number without end": (["generate", "Hi", "--seed", "9" * 5000], "--seed: must be a whole number, not '99999"),
    "a stop text like an option": (["generate", "Hi", "--stop", "-x"], "begins with - is written --stop=VALUE"),
    "a seed below 0": (["generate", "Hi", "--seed", "-1"], "seed must be"),
    "fewer than no tokens": (["generate", "Hi", "--max-new-tokens", "-1"], "max_new_tokens"),
    "an empty stop": (["generate", "Hi", "--stop", ""], "stop string must not be empty"),
    "a stop id below 0": (["generate", "Hi", "--stop-id", "-2"], "stop id"),
    "an unknown device": (["generate", "Hi", "--device", "tpu"], "--device"),
    "an unknown dtype": (["generate", "Hi", "--dtype", "float16"], "--dtype"),
    "a model that is not there": (["generate", "Hi", "--model", "no/such.gguf"], "no model called 'no/such.gguf'"),
    "a text that is not there": (["tokenize"], "TEXT"),
    "neither prompt nor ids": (["logits"], "either a PROMPT or --ids"),
    "both prompt and ids": (["logits", "Hi", "--ids", "1"], "either a PROMPT or --ids"),
    "ids that are none": (["logits", "--ids", "1,two"], "--ids: must be token ids"),
    "an id below 0": (["logits", "--ids=-1"], "--ids: must be token ids of 0 or more"),
    "no best": (["logits", "Hi", "--top", "0"], "--top must be 1 or more"),
    "half a head": (["logits", "Hi", "--attention", "3"], "--attention: must be layer.head"),
    "a model that is not known": (["models", "fetch", "Nothing"], "There is no model called 'Nothing'"),
    "an address that others reach": (["run", "--host", "0.0.0.0"], "say under which names"),
    "a port that cannot be": (["run", "--port", "70000"], "--port must be from 0 to 65535"),
    "a line break in an answer": (["generate", "Hi", "two\nlines\x1b[31m"], "two<U+000A>lines<U+001B>[31m"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_one_sentence_and_status_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("miniinfer: ")
    assert shown.err.count("\n") == 1
    assert said in shown.err
    assert len(shown.err) < 250


def test_bytes_that_are_no_text_are_refused() -> None:
    arguments = [os.fsencode(sys.executable), b"-m", b"miniinfer", b"generate", b"caf\xe9"]
    done = subprocess.run(arguments, cwd=project_root(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"must be UTF-8 text" in done.stderr


def test_bad_arguments_need_nothing_but_python() -> None:
    """-S: no site-packages at all, -I: nothing from the environment."""
    script = f"import sys; sys.path.insert(0, {str(project_root())!r}); sys.argv[1:] = ['generate', '']; "
    script += "from miniinfer.__main__ import main; status = main(); assert 'site' not in sys.modules; sys.exit(status)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("miniinfer: The prompt is empty")


def test_help_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["generate", "--help"])
    assert ended.value.code == 0
    assert "--repetition-penalty" in capsys.readouterr().out


def test_the_console_script_is_the_same_program() -> None:
    script = Path(sys.executable).parent / "miniinfer"
    done = subprocess.run([script, "generate", ""], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
