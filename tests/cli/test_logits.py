"""`logits`: the best next tokens and rows of attention, against numbers of other software."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.cli.conftest import Run


def test_a_process_prints_one_object(process: Run) -> None:
    status, out, err = process("logits", "--ids", "504,3575,282,4649,314", "--top", "2", "--attention", "0.4", "--json")
    assert status == 0, err
    assert out.count("\n") == 1
    said = json.loads(out)
    assert list(said) == ["ids", "top", "logsumexp", "attention"]
    assert said["ids"] == [504, 3575, 282, 4649, 314]
    assert said["top"] == [[7042, pytest.approx(17.3713, abs=2e-3)], [260, pytest.approx(14.8886, abs=2e-3)]]
    assert list(said["attention"]) == ["0.4"]


def test_everything_equals_the_reference(command: Run, reference: dict[str, Any]) -> None:
    for case in reference["cases"]:
        heads = [word for head in case["attn_last_row"] for word in ("--attention", head)]
        if case["kind"] == "raw":
            status, out, _ = command("logits", case["prompt"], "--top", "20", *heads, "--json")
        else:
            ids = ",".join(map(str, case["ids"]))
            status, out, _ = command("logits", "--ids", ids, "--top", "20", *heads, "--json")
        said = json.loads(out)
        assert status == 0
        assert said["ids"] == case["ids"]
        got, wanted = dict(said["top"]), dict(case["last_logits_top20"])
        both = set(got) & set(wanted)
        assert len(both) >= 19  # the twentieth may be a near tie
        assert [got[token_id] for token_id in both] == pytest.approx([wanted[token_id] for token_id in both], abs=2e-3)
        assert said["top"][0][0] == case["last_logits_top20"][0][0]
        assert said["logsumexp"] == pytest.approx(case["logsumexp"], abs=2e-3)
        for head, row in case["attn_last_row"].items():
            assert said["attention"][head] == pytest.approx(row, abs=1e-4)


def test_a_prompt_in_several_chunks(command: Run) -> None:
    status, out, _ = command("logits", "one two " * 150, "--attention", "3.1", "--attention", "29.8", "--json")
    said = json.loads(out)
    assert status == 0
    assert list(said["attention"]) == ["3.1", "29.8"]
    for row in said["attention"].values():
        assert len(row) == len(said["ids"]) > 256
        assert math.fsum(row) == pytest.approx(1, abs=1e-5)


def test_more_than_the_vocabulary_is_all_of_it(command: Run) -> None:
    _, out, _ = command("logits", "a", "--top", "60000", "--json")
    top = json.loads(out)["top"]
    assert len(top) == 49152
    assert top == sorted(top, key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("head", ["30.0", "0.9", "99.99"])
def test_a_head_that_there_is_not(command: Run, head: str) -> None:
    status, out, err = command("logits", "a", "--attention", head)
    assert (status, out) == (2, "")
    assert err == f"miniinfer: There is no head {head}; layers go from 0 to 29 and heads from 0 to 8.\n"


def test_the_table(command: Run) -> None:
    status, out, _ = command("logits", "The capital of France is", "--top", "1", "--attention", "0.4")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert lines[1][:2] == ["7042", "␣Paris"]
    assert float(lines[1][2]) == pytest.approx(17.3713, abs=2e-3)
    assert lines[1][3] == "77.25%"
    assert lines[2][0] == "logsumexp"
    assert [line[1:] for line in lines[4:]] == [
        ["504", "The"], ["3575", "␣capital"], ["282", "␣of"], ["4649", "␣France"], ["314", "␣is"],
    ]  # fmt: skip
