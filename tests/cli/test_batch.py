"""`batch`: requests from a file, a line for each, the totals; every bad line by its number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from miniinfer.trace.batch.run import BatchRun
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

KEYS = ["id", "text", "output_ids", "finish_reason", "ttft_ms", "tpot_ms", "num_preemptions"]
SAMPLING = ("temperature", "seed", "max_new_tokens")
TOTALS = ["steps", "tok_s", "wasted_slots", "wall_ms"]
LINES: list[dict[str, Any]] = [
    {"id": "france", "prompt": "The capital of France is", "temperature": 0, "max_new_tokens": 6},
    {"id": "sky", "prompt": "Why is the sky blue?", "chat": True, "seed": 7, "max_new_tokens": 10},
    {"id": 3, "prompt": "One two three four", "temperature": 1.1, "seed": 3, "max_new_tokens": 4, "arrival": 2},
]


def write(folder: Path, *lines: Any) -> str:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return str(path)


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def alone(command: Run, line: dict[str, Any], known: dict[str, list[int]] = {}) -> list[int]:  # noqa: B006 (kept)
    """What `generate` gives for the same request; asked once for each."""
    if str(line["id"]) in known:
        return known[str(line["id"])]
    options = [f"--{k.replace('_', '-')}={v}" for k, v in line.items() if k in SAMPLING]
    _, out, _ = command("generate", line["prompt"], *options, *["--chat"] * ("chat" in line), "--json")
    known[str(line["id"])] = objects(out)[-1]["output_ids"]
    return known[str(line["id"])]


@pytest.mark.parametrize("options", [(), ("--static", "--policy", "sjf"), ("--block-size=4", "--num-blocks=12")])
def test_each_request_gets_what_it_gets_alone(command: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    status, out, err = command("batch", write(tmp_path, *LINES, ""), *options, "--json")
    *found, totals = objects(out)
    assert status == 0, err
    assert all(list(line) == KEYS for line in found)
    assert list(totals) == TOTALS
    by_id = {line["id"]: line for line in found}
    assert set(by_id) == {"france", "sky", 3}
    for line in LINES:
        result = by_id[line["id"]]
        assert result["output_ids"] == alone(command, line)
        assert result["finish_reason"] in ("length", "stop")
        assert 0 < result["ttft_ms"] <= totals["wall_ms"]
        assert result["tpot_ms"] > 0
    assert by_id["france"]["text"].startswith(" Paris")
    assert (totals["wasted_slots"] > 0) == ("--static" in options)
    new = sum(len(line["output_ids"]) for line in found)
    assert totals["tok_s"] == pytest.approx(new / totals["wall_ms"] * 1000, rel=1e-3)
    assert "[#" in err, "the progress bar"
    assert "Traceback" not in err


def test_for_people(command: Run, tmp_path: Path) -> None:
    status, out, err = command("batch", write(tmp_path, LINES[0] | {"id": "\u00fc \u202eecnarf\nsecond line"}))
    assert status == 0
    assert out.startswith("\u00fc <U+202E>ecnarf\u21b5second line:  Paris."), "an id turns and breaks no line"
    assert out.count("\n") == 1
    assert "(length, 6 tokens, first after " in out
    assert "wasted_slots  0" in err


def test_what_cannot_run_is_named_and_the_others_go_on(command: Run, tmp_path: Path) -> None:
    path = write(
        tmp_path, {"id": "empty", "prompt": ""}, LINES[0], {"id": "long", "prompt": "word " * 60, "max_new_tokens": 2}
    )
    status, out, err = command("batch", path, "--num-blocks", "3", "--json")
    empty, long, france, _ = objects(out)
    assert status == 1
    assert [line["id"] for line in (empty, long, france)] == ["empty", "long", "france"]
    assert (empty["finish_reason"], empty["ttft_ms"], france["finish_reason"]) == ("abort", None, "length")
    assert "Request 'long' cannot run. Its 62 positions can need 4 blocks, but the pool has 3" in long["error"]
    assert "miniinfer: Request 'empty' cannot run. The prompt has no tokens" in err


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((LINES[0], "{nonsense"), "line 2: this is no JSON"),
        ((LINES[0], "[1]"), "line 2: a request is a JSON object"),
        (("", {"id": "a"}), "line 2: the request has no prompt"),
        (({"prompt": "x"},), "line 1: the request has no id"),
        (({"id": "a", "prompt": 5},), "line 1: prompt must be text, not 5"),
        (({"id": True, "prompt": "x"},), "line 1: id must be text or a whole number"),
        (({"id": "", "prompt": "x"},), "line 1: Every request needs an id"),
        (({"id": "a", "prompt": "x", "temprature": 1},), "line 1: there is no field 'temprature'; the fields are id, "),
        (({"id": "a", "prompt": "x", "temperature": -1},), "line 1: temperature must be 0 (greedy) or more"),
        (({"id": "a", "prompt": "x", "temperature": "warm"},), "line 1: temperature must be a finite number"),
        (({"id": "a", "prompt": "x", "stop": "."},), "line 1: stop must be a list"),
        (({"id": "a", "prompt": "x", "chat": 1},), "line 1: chat must be true or false"),
        (({"id": "a", "prompt": "x", "arrival": -2},), "line 1: The arrival of request 'a'"),
        (({"id": "a", "prompt": "\ud800"},), "line 1: half of a surrogate pair"),
        ((LINES[2], {"id": "3", "prompt": "x"}), "line 2: the id '3' stands in line 1 already"),
        (('{"id": "a", "prompt": "x", "id": "b"}',), "line 1: this is no JSON (the field 'id' stands twice)"),
        (
            ('{"id": "a", "prompt": "x", "max_new_tokens": ' + "9" * 5000 + "}",),
            "line 1: this is no JSON (a whole number of thousands",
        ),
        (({"id": "a", "prompt": "x", "order": [["top_k"]]},), "line 1: order must name each of"),
        (({"id": "a", "prompt": "x", "stop": [7]},), "line 1: A stop string must be text, not 7"),
        (({"id": "a", "prompt": "x", "stop": ["\ud800"]},), "line 1: half of a surrogate pair"),
        (("",), "has no requests"),
    ],
)
def test_a_bad_line_is_named_by_its_number(command: Run, tmp_path: Path, lines: tuple[Any, ...], says: str) -> None:
    status, out, err = command("batch", write(tmp_path, *lines), "--json")
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--token-budget", "-5"), "The token budget must be a whole number above 0, not -5"),
        (("--num-blocks", "0"), "The number of blocks"),
        (("--policy", "lifo"), "--policy: invalid choice: 'lifo'"),
    ],
)
def test_a_bad_setting_is_a_sentence(command: Run, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    status, out, err = command("batch", write(tmp_path, LINES[0]), *options)
    assert (status, out) == (2, "")
    assert says in err


def test_a_file_that_is_not_there(command: Run, tmp_path: Path) -> None:
    status, _, err = command("batch", str(tmp_path / "none.jsonl"))
    assert status == 2
    assert "none.jsonl cannot be read" in err


@pytest.mark.parametrize("options", [("--json",), ("--static",)])
def test_an_interrupt_ends_it_in_good_order(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """What there is of each request is printed once, the totals too; 130 as for every interrupted command."""
    step = BatchRun.step

    def interrupted(self: BatchRun) -> bool:
        if len(self.steps) == 6:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(BatchRun, "step", interrupted)
    late = {"id": "late", "prompt": "x", "arrival": 9}
    status, out, _ = command("batch", write(tmp_path, *LINES, late), *options)
    assert status == 130
    if "--json" not in options:
        assert out.count("\n") == 4
        return
    *found, totals = objects(out)
    assert totals["steps"] == 6
    ended = {line["id"]: (line["finish_reason"], len(line["output_ids"])) for line in found}
    assert (len(found), ended["france"], ended["late"]) == (4, ("length", 6), ("abort", 0))
    assert ended["sky"][0] == "abort"
    [sky] = [line for line in found if line["id"] == "sky"]
    assert sky["output_ids"] == alone(command, LINES[1])[: len(sky["output_ids"])]


def test_a_preempted_request_says_so(command: Run, tmp_path: Path, model: LoadedModel) -> None:
    settings = {"temperature": 0, "max_new_tokens": 12}
    lines = [{"id": name, "prompt": f"{name} went out and", **settings} for name in ("Ann", "Bob")]
    lengths = [len(model.tokenizer.encode_prompt(str(line["prompt"]))) + 11 for line in lines]
    blocks = -(-max(lengths) // 4) + 1
    status, out, _ = command("batch", write(tmp_path, *lines), "--block-size=4", f"--num-blocks={blocks}", "--json")
    ann, bob, _ = objects(out)
    assert status == 0
    assert (ann["num_preemptions"], bob["num_preemptions"] > 0) == (0, True)
    assert bob["output_ids"] == alone(command, lines[1])
