"""Guesses about the next token, and what the run says about them. Scores come from the run's own distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.trace.sampling.sampling import Sampling


@dataclass(frozen=True)
class Guess:
    """text: as typed. candidates: the tokens that it may mean, for example with and without a space in front."""

    text: str
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """rank: from 1, in the order of the model's own probabilities. surprise: -ln of it, in nats.

    survived: the token could be drawn. hit: the run took it.
    """

    text: str
    token_id: int
    rank: int
    raw_prob: float
    used_prob: float
    survived: bool
    hit: bool

    @property
    def surprise(self) -> float:
        return -math.log(self.raw_prob) if self.raw_prob > 0 else math.inf


def score(guesses: Sequence[Guess], sampling: Sampling, taken: int) -> tuple[Score, ...]:
    """One score a guess. taken: the run's token. Of a guess's candidates the taken one, else the likeliest, counts."""
    raw, used = sampling.raw.probs, sampling.used.probs
    scores = []
    for guess in guesses:
        token_id = max(guess.candidates, key=lambda i: (i == taken, float(raw[i]), -i))
        rank = int((raw > raw[token_id]).sum() + (raw[:token_id] == raw[token_id]).sum()) + 1
        scores.append(
            Score(
                guess.text, token_id, rank, float(raw[token_id]), float(used[token_id]), bool(used[token_id] > 0),
                token_id == taken,
            )
        )
    return tuple(scores)
