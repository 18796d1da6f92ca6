"""The whole engine under random traffic: arrivals, forks, aborts, releases, parked and failing steps, in pools so small
that somebody must give way. Every sequence gets the tokens that it gets alone, with NaN in every free block."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
import torch

from miniinfer.config import POLICIES, PROCESSOR_NAMES, EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence
from miniinfer.engine.state import StepState
from miniinfer.errors import BadInputError, OutOfBlocksError
from tests.engine.helpers import logits_by_seq, poison, run_all, shared_tiny

VOCAB = 67
FAMILIES = [list(range(1, 21)), [30] * 20, [60, 61, 62] * 7]
MOST_SEQS = 10


class Failure(Exception):
    """A stage that fails in the middle of a step."""


@dataclass
class Traffic:
    """One engine and all that happens to it, drawn from a seed. began: tokens and prompt length at the start."""

    draw: random.Random
    began: dict[str, tuple[list[int], int]] = field(default_factory=dict)
    states: list[StepState] = field(default_factory=list)
    seqs: list[Sequence] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = self.draw
        self.coming = [(self.prompt(), self.params()) for _ in range(draw.randint(2, 7))]
        size = draw.choice([1, 2, 3, 4, 8])
        memory = draw.choice(["plain", "prefixes", "reserved"])
        longest = max(-(-(len(prompt) + params.max_new_tokens) // size) for prompt, params in self.coming)
        self.static = draw.random() < 0.3
        self.can_fork = not self.static and memory != "reserved"
        self.engine = Engine(shared_tiny(), EngineConfig(
            block_size=size, pool_chunk_blocks=draw.choice([1, 2, 16]), max_blocks=longest + draw.choice([0, 0, 1, 3]),
            max_num_batched_tokens=draw.choice([1, 2, 5, 11, 64]), max_num_seqs=draw.choice([1, 2, 3, 16]),
            policy=draw.choice(sorted(POLICIES)), batching="static" if self.static else "continuous",
            prefix_caching=memory == "prefixes", reserve_blocks=memory == "reserved",
        ))  # fmt: skip

    def prompt(self) -> list[int]:
        draw = self.draw
        own = [draw.randrange(VOCAB) for _ in range(draw.randint(1, 12))]
        return draw.choice(FAMILIES)[: draw.randint(0, 20)] + own

    def params(self) -> SamplingParams:
        draw = self.draw
        return SamplingParams(
            temperature=draw.choice([0, 0, 0.7, 1.5]), top_k=draw.choice([0, 5]), top_p=draw.choice([1, 0.9]),
            repetition_penalty=draw.choice([1, 1.3]), frequency_penalty=draw.choice([0, 0.4]),
            seed=draw.randrange(2**64), max_new_tokens=draw.randint(1, 12),
            order=tuple(draw.sample(PROCESSOR_NAMES, len(PROCESSOR_NAMES))),
        )  # fmt: skip

    def run(self) -> None:
        for _ in range(3000):
            while self.coming and (not self.engine.has_unfinished or self.draw.random() < 0.4):
                prompt, params = self.coming.pop()
                self.joined(self.engine.add_request(prompt, params))
            if not self.engine.has_unfinished:
                break
            self.disturb()
            poison(self.engine)
            try:
                (self.parked_step if self.draw.random() < 0.1 and not self.static else self.step)()
            except OutOfBlocksError:
                self.let_one_go()
            self.engine.check()
            self.release_some()
        assert not self.engine.has_unfinished, "it does not end"
        for seq in self.seqs:
            self.engine.release(seq)
        self.engine.check()
        assert self.engine.pool.num_used == 0

    def joined(self, seq: Sequence) -> None:
        self.seqs.append(seq)
        self.began[seq.seq_id] = list(seq.token_ids), seq.num_prompt_tokens

    def disturb(self) -> None:
        chance = self.draw.random()
        if chance < 0.04 and self.seqs:
            self.engine.abort(self.draw.choice(self.seqs))
        elif chance < 0.12 and self.can_fork and 0 < len(self.seqs) < MOST_SEQS:
            seq = self.draw.choice(self.seqs)
            length = self.draw.randint(1, seq.num_tokens)
            self.joined(self.engine.fork(seq, length, force=self.draw.choice([None, 5])))
        self.engine.check()

    def step(self) -> None:
        failing = self.draw.choice(self.engine.program) if self.draw.random() < 0.05 else None

        def fail(stage: object, state: StepState) -> None:
            if stage is failing:
                raise Failure

        with suppress(Failure):
            self.committed(self.engine.step(fail if failing else None))

    def parked_step(self) -> None:
        state = self.engine.begin_step()
        if state is None:  # the last one has just been aborted
            return
        self.engine.advance(state, until=self.draw.randrange(len(self.engine.program)))
        self.disturb()
        with suppress(OutOfBlocksError, BadInputError):  # there may be nobody else to run
            self.committed(self.engine.step())
        self.engine.check()
        if state in self.engine.open_states and self.draw.random() < 0.7:
            with suppress(BadInputError):  # parked before its first stage, and nobody is left
                self.committed(self.engine.advance(state))
        elif state in self.engine.open_states:
            self.engine.abandon(state)

    def committed(self, state: StepState | None) -> None:
        if state is not None:
            self.states.append(state)

    def let_one_go(self) -> None:
        """Forks may be longer than the pool, and finished sequences may hold what others need."""
        done = [seq for seq in self.seqs if seq.finished and seq.block_table]
        alive = [seq for seq in self.seqs if not seq.finished]
        self.engine.release(done[0]) if done else self.engine.abort(alive[-1])

    def release_some(self) -> None:
        if self.static and self.engine.scheduler.running:
            return
        for seq in self.seqs:
            if seq.finished and seq.block_table and self.draw.random() < 0.7:
                self.engine.release(seq)
                self.engine.check()

    def check_against_alone(self) -> int:
        """Tokens that were compared."""
        logits = logits_by_seq(self.states)
        for seq in self.seqs:
            tokens, num_prompt = self.began[seq.seq_id]
            made = seq.token_ids[len(tokens):]
            if not made:
                continue
            params = replace(seq.params, max_new_tokens=seq.num_tokens - num_prompt)
            alone = Engine(shared_tiny())
            twin = alone.add_request(tokens, params)
            twin.num_prompt_tokens = num_prompt  # a fork's tokens after the prompt are output, as they were for it
            expected = logits_by_seq(run_all(alone))[twin.seq_id]
            assert twin.token_ids == seq.token_ids, seq.seq_id
            for found, wanted in zip(logits[seq.seq_id], expected, strict=True):
                torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)
        return sum(seq.num_tokens - len(self.began[seq.seq_id][0]) for seq in self.seqs)


@pytest.mark.parametrize("seed", range(0, 20, 2))
def test_whatever_happens_everybody_gets_what_they_get_alone(seed: int) -> None:
    traffic = Traffic(random.Random(seed))
    traffic.run()
    assert traffic.check_against_alone() > 0
