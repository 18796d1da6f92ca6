"""`generate`: the text, the summary, and one JSON object for each step."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from miniinfer.cli.generation import Generation
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from miniinfer.models.loader import LoadedModel

KV_BYTES_PER_TOKEN = 46_080  # 2 x 30 layers x 3 KV heads x 64 numbers x 4 bytes
STEP_KEYS = [
    "step", "phase", "num_scheduled_tokens", "context_len", "token_id", "token_str", "logprob", "coin", "kv_bytes",
    "ms",
]  # fmt: skip
RESULT_KEYS = ["finish_reason", "text", "prompt_ids", "output_ids"]
FRANCE = "The capital of France is"


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def check_steps(steps: Sequence[dict[str, Any]], result: dict[str, Any]) -> None:
    """What holds for every generation whose prompt is computed in one step."""
    prompt, output = result["prompt_ids"], result["output_ids"]
    assert list(result) == RESULT_KEYS
    assert all(list(step) == STEP_KEYS for step in steps)
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    assert [step["phase"] for step in steps] == ["prefill"] + ["decode"] * (len(steps) - 1)
    assert [step["num_scheduled_tokens"] for step in steps] == [len(prompt)] + [1] * (len(steps) - 1)
    assert [step["context_len"] for step in steps] == list(range(len(prompt), len(prompt) + len(steps)))
    assert [step["kv_bytes"] for step in steps] == [step["context_len"] * KV_BYTES_PER_TOKEN for step in steps]
    assert [step["token_id"] for step in steps] == output
    assert all(0 <= step["coin"] < 1 and step["ms"] > 0 and step["logprob"] <= 0 for step in steps)


def margin_holds_for(case: dict[str, Any]) -> int:
    """How many greedy ids another order of summation cannot change."""
    return next((i for i, margin in enumerate(case["greedy_margin"]) if margin <= 0.01), len(case["greedy_margin"]))


def test_a_process_prints_json_and_nothing_else(process: Run, reference: dict[str, Any]) -> None:
    case = reference["cases"][0]
    status, out, err = process("generate", case["prompt"], "--temperature", "0", "--json", "--max-new-tokens", "16")
    assert status == 0, err
    *steps, result = objects(out)
    check_steps(steps, result)
    assert result["prompt_ids"] == case["ids"]
    assert result["output_ids"] == case["greedy_ids"][:16]
    assert result["finish_reason"] == "length"
    assert all(step["logprob"] == 0.0 for step in steps)
    assert "Traceback" not in err


def test_greedy_equals_the_reference(command: Run, reference: dict[str, Any]) -> None:
    for case in (reference["cases"][i] for i in (2, 5, 7)):  # a chat, hard characters, a single letter
        chat = ["--chat"] if case["kind"] == "chat" else []
        options = (*chat, "--temperature", "0", "--max-new-tokens", "12", "--json")
        status, out, _ = command("generate", case["text"], *options)
        *steps, result = objects(out)
        sure = min(12, margin_holds_for(case))
        assert status == 0
        check_steps(steps, result)
        assert result["prompt_ids"] == case["ids"]
        got = result["output_ids"][:sure]
        assert got == case["greedy_ids"][: len(got)]
        assert len(got) == sure or result["finish_reason"] == "stop"


def test_a_seed_draws_the_same_tokens_and_the_coin_is_shown(command: Run) -> None:
    first, again, other = (
        objects(command("generate", FRANCE, "--json", "--seed", seed, "--temperature", "1.2")[1]) for seed in "778"
    )
    assert first[-1] == again[-1]
    assert [step["coin"] for step in first[:-1]] == [step["coin"] for step in again[:-1]]
    assert first[-1]["output_ids"] != other[-1]["output_ids"]
    check_steps(first[:-1], first[-1])


def test_the_logprob_is_that_of_the_filtered_distribution(command: Run) -> None:
    """With top-k 2 only " Paris" and " the" are left, 17.3713 and 14.8886, halved by the temperature."""
    status, out, _ = command(
        "generate", FRANCE, "--json", "--top-k", "2", "--top-p", "1", "--temperature", "2", "--max-new-tokens", "1"
    )
    step = objects(out)[0]
    assert status == 0
    assert step["token_id"] in (7042, 260)
    logits = {7042: 17.3713 / 2, 260: 14.8886 / 2}
    expected = logits[step["token_id"]] - math.log(sum(map(math.exp, logits.values())))
    assert step["logprob"] == pytest.approx(expected, abs=2e-3)


def test_text_goes_to_stdout_and_the_summary_to_stderr(command: Run) -> None:
    _, out, _ = command("generate", FRANCE, "--temperature", "0", "--json", "--max-new-tokens", "8")
    text = objects(out)[-1]["text"]
    status, out, err = command("generate", FRANCE, "--temperature", "0", "--max-new-tokens", "8")
    assert (status, out) == (0, text + "\n")
    rows = [re.split(r"  +", line) for line in err.splitlines()]
    assert [row[0] for row in rows] == ["finish_reason", "prompt", "output", "prefill", "decode", "KV cache", "run on"]
    assert [rows[i][1] for i in (0, 1, 2)] == ["length", "5 tokens", "8 tokens"]
    assert rows[5][1] == f"{12 * KV_BYTES_PER_TOKEN:,} bytes for 12 positions"


def test_a_stop_text_ends_it_and_is_not_shown(command: Run) -> None:
    status, out, _ = command("generate", FRANCE, "--temperature", "0", "--json", "--stop", "Paris", "--stop", "zebra")
    result = objects(out)[-1]
    assert (status, result["finish_reason"], result["text"], result["output_ids"]) == (0, "stop", " ", [7042])


def test_a_stop_id_ends_it_and_is_not_shown(command: Run, model: LoadedModel) -> None:
    status, out, _ = command("generate", FRANCE, "--temperature", "0", "--json", "--stop-id", "30")
    result = objects(out)[-1]
    assert model.tokenizer.display(30) == "."
    assert (status, result["finish_reason"], result["text"], result["output_ids"]) == (0, "stop", " Paris", [7042, 30])


def test_control_tokens_in_a_raw_prompt_count_and_in_a_message_do_not(command: Run) -> None:
    options = ("--json", "--max-new-tokens", "1")
    raw = objects(command("generate", "A<|im_end|>B", *options)[1])[-1]["prompt_ids"]
    chat = objects(command("generate", "A<|im_end|>B", "--chat", *options)[1])[-1]["prompt_ids"]
    assert raw == [49, 2, 50]
    message = chat.index(4093) + 2  # after "user" and a line break
    assert chat[message : message + 9] == [49, 44, 108, 306, 79, 486, 108, 46, 50]


def test_no_new_tokens_is_a_prefill_alone(command: Run) -> None:
    status, out, _ = command("generate", FRANCE, "--json", "--max-new-tokens", "0")
    *steps, result = objects(out)
    assert (status, result["finish_reason"], result["text"], result["output_ids"]) == (0, "length", "", [])
    assert [(step["phase"], step["context_len"], step["token_id"], step["logprob"]) for step in steps] == [
        ("prefill", 5, None, None)
    ]


def test_a_long_prompt_is_computed_in_chunks(command: Run) -> None:
    status, out, _ = command("generate", "word " * 300, "--json", "--max-new-tokens", "2")
    *steps, result = objects(out)
    count = len(result["prompt_ids"])
    assert status == 0
    assert [(step["phase"], step["num_scheduled_tokens"]) for step in steps] == [
        ("prefill", 256), ("prefill", count - 256), ("decode", 1),
    ]  # fmt: skip
    assert [step["token_id"] is None for step in steps] == [True, False, False]
    assert [step["context_len"] for step in steps] == [256, count, count + 1]


def test_a_prompt_beyond_the_context_is_refused_before_anything_runs(command: Run) -> None:
    status, out, err = command("generate", "word " * 8200)
    assert (status, out) == (2, "")
    assert "8,192" in err
    assert err.count("\n") == 1


def test_an_id_that_is_no_token_is_refused(command: Run) -> None:
    status, out, err = command("logits", "--ids", "1,49152")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def test_a_top_k_above_the_vocabulary_is_clamped_with_a_note(command: Run) -> None:
    status, _, err = command("generate", "Hi", "--top-k", "60000", "--max-new-tokens", "1")
    assert status == 0
    assert "top_k 60,000 is above the vocabulary of 49,152 tokens" in err


def test_a_stop_id_beyond_the_vocabulary_is_said_to_stop_nothing(command: Run) -> None:
    status, _, err = command("generate", "Hi", "--stop-id", "49152", "--max-new-tokens", "1")
    assert status == 0
    assert "Stop id 49152 stops nothing: the vocabulary ends at 49151." in err


def test_an_aborted_request_still_prints_its_last_line(command: Run) -> None:
    status, out, err = command("generate", "Hi", "--repetition-penalty", "1e-300", "--json")
    *_, result = objects(out)
    assert status == 1
    assert list(result) == RESULT_KEYS
    assert result["finish_reason"] == "abort"
    assert "penalties" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", ["--json", None])
def test_an_interrupted_one_says_what_it_had(
    command: Run, model: LoadedModel, monkeypatch: pytest.MonkeyPatch, form: str | None
) -> None:
    steps = Generation.step

    def step(self: Generation) -> tuple[dict[str, Any], str] | None:
        if len(self.records) == 3:
            raise KeyboardInterrupt
        return steps(self)

    monkeypatch.setattr(Generation, "step", step)
    status, out, err = command("generate", FRANCE, "--temperature", "0", *([form] if form else []))
    assert status == 130
    if form:
        *_, result = objects(out)
        assert (result["finish_reason"], len(result["output_ids"])) == ("abort", 3)
        assert model.tokenizer.decode(result["output_ids"]) == result["text"]
    else:
        assert out == " Paris.\n\n"  # the third token is a line end
        assert re.split(r"  +|\n", err)[:4] == ["finish_reason", "abort", "prompt", "5 tokens"]
