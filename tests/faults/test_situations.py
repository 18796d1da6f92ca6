"""What the page sets up on both sides does no harm to a healthy model, and every fault says true things of itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from miniinfer.config import PROCESSOR_NAMES, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.lookup import pattern_rows
from miniinfer.engine.program import build_program
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError
from miniinfer.faults.catalogue import FAULTS, find_fault
from miniinfer.faults.experiment import make_engine, wrapped
from miniinfer.faults.fault import Fault, Situation
from miniinfer.faults.positions import later_positions
from miniinfer.ui.tokens import encode_prompt
from tests.engine.tiny import TINY
from tests.faults.helpers import PLAIN, bits_equal, largest, logits

ROOT = Path(__file__).parents[2]
PROMPT = [504, 3575, 282, 4649, 314]  # The capital of France is


def test_a_healthy_model_answers_the_same_far_from_the_start(model) -> None:
    far = logits(make_engine(model, find_fault("half_precision_positions").situation), PROMPT)
    near = logits(Engine(model), PROMPT)
    assert max(map(largest, far, near)) < 0.02
    assert not bits_equal(far, near)


def test_lower_logits_give_the_same_probabilities(model) -> None:
    lower = logits(make_engine(model, find_fault("penalty_divides").situation), PROMPT)
    plain = logits(Engine(model), PROMPT)
    for a, b in zip(lower, plain, strict=True):
        assert a.max() < 0 < b.max()
        torch.testing.assert_close(a.softmax(0), b.softmax(0), atol=1e-5, rtol=1e-3)


def test_an_earlier_request_leaves_a_healthy_engine_bit_for_bit_right(model) -> None:
    situation = find_fault("stale_block").situation
    earlier = encode_prompt(model, situation.earlier, chat=False)
    engine = make_engine(model, situation, None, earlier)
    assert engine.pool.num_used == 0
    assert engine.sequences == {}
    assert engine.kv_cache.data.any(), "the freed block still holds what was in it"
    assert bits_equal(logits(engine, PROMPT), logits(Engine(model), PROMPT))


def test_the_first_blocks_of_both_prompts_are_the_same_one_and_whole(model) -> None:
    """The situation shows the fault fully only if the new prompt fits into what the earlier one filled."""
    situation = find_fault("stale_block").situation
    earlier, ids = (encode_prompt(model, prompt, chat=False) for prompt in (situation.earlier, situation.prompt))
    assert len(earlier) == len(ids) <= 16


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_a_value_that_tells_the_truth(fault) -> None:
    assert bool(fault.replaced) != (fault.prompt_edit is not None), "stages or the prompt, and nothing else"
    healthy = build_program(TINY)
    program = wrapped(healthy, fault.replaced)
    changed = {a.name for a, b in zip(healthy, program, strict=True) if a.fn is not b.fn}
    assert changed == set(fault.replaced)
    for stage in program:
        if stage.name in changed:
            assert stage.sentence, "a replaced stage says what it does"
    sentences = re.findall(r"[.?:!](?=\s|$)", fault.notice)
    assert len(sentences) >= 2
    path, _, name = fault.guard.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    if fault.met is not None:
        book = (ROOT / "docs" / "what-broke.md").read_text(encoding="utf-8")
        _, _, entry = book.partition(f"## {fault.met.heading}\n")
        told = " ".join(entry.partition("\n## ")[0].split())
        assert f'"{fault.name}"' in told, "the entry names the fault too"


def test_all_twelve_are_there_and_have_names_of_their_own() -> None:
    assert len({fault.id for fault in FAULTS}) == len({fault.name for fault in FAULTS}) == len(FAULTS) == 12
    assert len(find_fault("penalty_divides").replaced) == len(PROCESSOR_NAMES)
    assert find_fault("penalty_divides").what_is_replaced == "processor_1 to processor_6"
    assert find_fault("first_token_doubled").what_is_replaced == "the prompt's ids"
    with pytest.raises(BadInputError, match="no_causal_mask"):
        find_fault("nothing")


def test_the_list_of_faults_needs_no_torch() -> None:
    code = "import sys, miniinfer.faults.catalogue; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# What two of the faults say about themselves, on the real model.


def test_moving_all_positions_shows_keys_without_rope(model) -> None:
    moved = Situation("", setup={"prepare_inputs": later_positions(100)})
    once = SamplingParams(temperature=0, max_new_tokens=1)
    for fault, least, most in ((None, 0, 1e-3), (find_fault("keys_without_rope"), 5, 100)):
        near, far = (logits(make_engine(model, where, fault), PROMPT, once)[0] for where in (PLAIN, moved))
        assert least <= largest(near, far) < most


def test_without_scaling_the_entropy_of_the_patterns_falls_in_every_layer(model) -> None:
    def entropies(fault: Fault | None) -> list[float]:
        engine, found = make_engine(model, PLAIN, fault), []

        def look(stage: Stage, state: StepState) -> None:
            if stage.name == "attn_pattern":
                rows = pattern_rows(state, 0)[:, 1:]  # [H, Tq, C]; the first token sees one key
                found.append(torch.special.entr(rows).sum(-1).mean().item())

        engine.add_request(PROMPT, SamplingParams(max_new_tokens=0))
        engine.step(look)
        return found

    healthy, broken = entropies(None), entropies(find_fault("no_scaling"))
    assert len(healthy) == model.config.num_layers
    assert all(b < a / 2 for a, b in zip(healthy, broken, strict=True))
