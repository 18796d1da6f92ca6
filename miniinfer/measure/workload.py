"""Steps to be measured: an engine of the measurement's own, so that nothing of the user's run is touched or slowed.

A model without stop tokens, and sequences that stand at given lengths of one text: the text is prefilled once, each
length is a fork of it, so that all of them can be stepped in turn.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from miniinfer.config import EngineConfig, ModelConfig, SamplingParams
from miniinfer.engine.backend import Backend, ChooseBackend, always_torch, backend_of
from miniinfer.engine.engine import Engine
from miniinfer.engine.sequence import Sequence as EngineSequence
from miniinfer.engine.step_parts import advanced_in_parts
from miniinfer.engine.weights import ModelLike, Weights
from miniinfer.errors import BadInputError
from miniinfer.measure.progress import Measurement, Progress

CHUNK = 256  # prompt tokens a step, so that nobody else waits long
GREEDY = SamplingParams(temperature=0, max_new_tokens=1)


@dataclass(frozen=True)
class EndlessModel:
    """A model with no token that ends a text: a run must not end before it has been measured."""

    config: ModelConfig
    weights: Weights
    token_bytes: tuple[bytes, ...]
    stop_ids: AbstractSet[int] = frozenset()
    choose_backend: ChooseBackend = always_torch

    @classmethod
    def of(cls, model: ModelLike) -> EndlessModel:
        backend = backend_of(model)
        return cls(model.config, model.weights, model.token_bytes, choose_backend=lambda _weights: backend)


def endless_params(params: SamplingParams, tokens: int) -> SamplingParams:
    """The same settings and coins, with nothing that ends the text before this many tokens."""
    return dataclasses.replace(params, stop=(), stop_ids=(), max_new_tokens=tokens)


def own_engine(model: ModelLike, one_pass: int = CHUNK, backend: Backend | None = None) -> Engine:
    """one_pass: the most tokens that one step computes. backend: None for what the model chooses."""
    config = EngineConfig(max_num_batched_tokens=one_pass, max_num_seqs=64)
    return Engine(EndlessModel.of(model), config, backend=backend)


def stretched(ids: Sequence[int], length: int) -> list[int]:
    """The first `length` tokens of a text, which begins again where it is too short."""
    if not ids:
        raise BadInputError("There is no text to measure with: the run has no tokens.")
    return [ids[i % len(ids)] for i in range(length)]


def check_lengths(lengths: Sequence[int], rounds: int, context_length: int) -> None:
    """Raises BadInputError if there are none, one is not above 0, or one does not fit with its rounds."""
    if not lengths or min(lengths) < 1 or rounds < 1:
        raise BadInputError("A measurement needs at least one length, each a whole number above 0, and one round.")
    if max(lengths) + rounds > context_length:
        raise BadInputError(
            f"{max(lengths):,} tokens and {rounds} steps after them do not fit into this model's context of "
            f"{context_length:,}: choose shorter lengths."
        )


def sequences_at(
    engine: Engine, ids: Sequence[int], lengths: Sequence[int], params: SamplingParams
) -> Measurement[list[EngineSequence]]:
    """One sequence for each length, with all but its newest token in the cache: its next step is a decode step."""
    params = dataclasses.replace(params, max_new_tokens=max(params.max_new_tokens, 1))
    trunk = engine.add_request(stretched(ids, max(lengths)), params)
    while trunk.num_output_tokens == 0:
        done = trunk.num_computed_tokens
        said = Progress(f"filling the cache, {done:,} of {trunk.num_prompt_tokens:,} tokens", done / max(lengths))
        yield said
        state = engine.begin_step(only=trunk)
        assert state is not None  # it has not ended: it has no output yet
        for _ in advanced_in_parts(engine, state):  # nobody takes its time
            yield said
    forks = [engine.fork(trunk, length, params=params) for length in lengths]
    engine.release(trunk)
    return forks


def rounds_of(
    variants: Mapping[str, Callable[[], float]], *, rounds: int, warm_up: int, text: str, seed: int = 0
) -> Measurement[dict[str, list[float]]]:
    """Call every variant once a round, in a new random order each round; each gives back its milliseconds.

    The warm-up rounds are thrown away. Between two calls others may run.
    """
    if not variants or rounds < 1 or warm_up < 0:
        raise BadInputError("Timing needs at least one variant, one round, and no negative warm-up.")
    order = list(variants)
    shuffle = random.Random(seed).shuffle  # not the global random state
    taken: dict[str, list[float]] = {name: [] for name in order}
    total = (warm_up + rounds) * len(order)
    for number in range(warm_up + rounds):
        shuffle(order)
        for place, name in enumerate(order):
            what = f"{text}, warm-up" if number < warm_up else f"{text}, round {number - warm_up + 1} of {rounds}"
            yield Progress(what, (number * len(order) + place) / total)
            value = variants[name]()
            if number >= warm_up:
                taken[name].append(value)
    return taken
