"""Frozen settings: what the model is, how the engine runs, how a sequence is sampled. Standard library only.

Shape letters used in every docstring of the project:

    T scheduled tokens (all sequences, flattened)   S sequences       C context length    R rows that are sampled
    H query heads    K key/value heads              D head dim        G = H / K           E hidden size
    F MLP size       V vocabulary                   L layers          N blocks            P block size
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from reprlib import repr as shown  # a value as a sentence can hold it, however long it is

from miniinfer.errors import BadInputError

PROCESSOR_NAMES = ("repetition", "presence_frequency", "temperature", "top_k", "top_p", "min_p")

# Who gets the token budget of a step first. All but `prefill-first` serve those that run before those that wait.
POLICIES = {
    "fcfs": "First come, first served: in order of arrival, whether prompt or decode.",
    "sjf": "Shortest first: the fewest tokens left to compute; each step since the arrival counts as one token less.",
    "prefill-first": "Prompts take the budget, new ones included, and decodes share what is left.",
    "decode-first": "Decodes take the budget; while anybody decodes, one prompt at a time is computed beside them.",
}


# What computes the stages of a step.
BACKENDS = {
    "auto": "The compiled core where it is built and fits the model, else torch.",
    "torch": "The readable program, in torch: the reference.",
    "native": "The compiled core, in C++.",
    "graph": "The torch program, whose decode steps use the same memory again; on CUDA each stage is a captured graph.",
}


@dataclass(frozen=True)
class ModelConfig:
    """The facts of an architecture, each read from the model file (models/ lists those that were derived)."""

    architecture: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    context_length: int
    rope_base: float
    norm_eps: float
    tied: bool

    def __post_init__(self) -> None:
        for name in (
            "num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "intermediate_size", "vocab_size",
            "context_length",
        ):
            size = getattr(self, name)
            if not (isinstance(size, int) and size > 0):
                raise BadInputError(f"The model's {name} must be a whole number above 0, not {shown(size)}.")
        if self.num_heads % self.num_kv_heads:
            raise BadInputError(
                f"The model has {self.num_heads} query heads for {self.num_kv_heads} key/value heads; "
                "the first must be a multiple of the second."
            )
        if self.head_dim % 2:
            raise BadInputError(f"RoPE rotates pairs, so the head size must be even, not {self.head_dim}.")
        for name in ("rope_base", "norm_eps"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise BadInputError(f"The model's {name} must be a finite number above 0, not {shown(value)}.")

    @property
    def group_size(self) -> int:
        """Query heads that share one key/value head (G)."""
        return self.num_heads // self.num_kv_heads

    def kv_bytes_per_token(self, itemsize: int) -> int:
        """Bytes that one position takes in the KV cache: 2 (K and V) x L x K x D x itemsize."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * itemsize


@dataclass(frozen=True)
class EngineConfig:
    """How an engine runs; none of it changes what a float32 run computes beyond rounding."""

    block_size: int = 16
    pool_chunk_blocks: int = 16  # the pool grows by this many blocks at a time
    max_blocks: int | None = None  # None: as many as one full context needs for every running sequence
    max_num_batched_tokens: int = 256  # token budget of a step
    max_num_seqs: int = 16
    context_length: int | None = None  # None: the model's own
    policy: str = "fcfs"  # see POLICIES
    batching: str = "continuous"  # or "static": a padded batch, of which nobody leaves before all are done
    prefix_caching: bool = False  # find full blocks with the same beginning again, also free ones
    reserve_blocks: bool = False  # take all blocks that a sequence can ever need when it starts: no paging

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise BadInputError(f"policy must be one of {', '.join(POLICIES)}, not {shown(self.policy)}.")
        if self.batching not in ("continuous", "static"):
            raise BadInputError(f"batching must be continuous or static, not {shown(self.batching)}.")
        if self.prefix_caching and self.reserve_blocks:
            raise BadInputError("reserve_blocks gives each sequence its own blocks, so prefix_caching must be off.")
        for name in ("block_size", "pool_chunk_blocks", "max_num_batched_tokens", "max_num_seqs"):
            value = getattr(self, name)
            if not (isinstance(value, int) and not isinstance(value, bool) and value > 0):
                raise BadInputError(f"{name} must be a whole number above 0, not {shown(value)}.")
        for name in ("max_blocks", "context_length"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value > 0):
                raise BadInputError(f"{name} must be a whole number above 0, or left out, not {shown(value)}.")


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInputError(f"{name} must be a whole number of {least} or more, not {shown(value)}.")


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInputError(f"{name} must be a finite number, not {shown(value)}.")
    return float(value)


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen. temperature 0 is greedy: argmax, lowest id on a tie; filters change nothing.

    top_k 0 is off (above the vocabulary it is clamped); repetition counts prompt and output, once per id; presence and
    frequency count the output only. `order` is the order in which the logits processors run. Raises BadInputError.
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    max_new_tokens: int = 32
    order: tuple[str, ...] = PROCESSOR_NAMES

    def __post_init__(self) -> None:
        if _real("temperature", self.temperature) < 0:
            raise BadInputError(f"temperature must be 0 (greedy) or more, not {shown(self.temperature)}.")
        _whole("top_k", self.top_k, 0)
        if not 0 < _real("top_p", self.top_p) <= 1:
            raise BadInputError(f"top_p must be above 0 and at most 1, not {shown(self.top_p)}.")
        if not 0 <= _real("min_p", self.min_p) < 1:
            raise BadInputError(f"min_p must be at least 0 and below 1, not {shown(self.min_p)}.")
        if _real("repetition_penalty", self.repetition_penalty) <= 0:
            raise BadInputError(f"repetition_penalty must be above 0 (1 is off), not {shown(self.repetition_penalty)}.")
        _real("presence_penalty", self.presence_penalty)
        _real("frequency_penalty", self.frequency_penalty)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**64:
            raise BadInputError(f"seed must be a whole number from 0 to 2**64 - 1, not {shown(self.seed)}.")
        _whole("max_new_tokens", self.max_new_tokens, 0)
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "stop_ids", tuple(self.stop_ids))
        object.__setattr__(self, "order", tuple(self.order))
        for text in self.stop:
            if not isinstance(text, str):
                raise BadInputError(f"A stop string must be text, not {text!r}.")
            if not text:
                raise BadInputError("A stop string must not be empty.")
        for token_id in self.stop_ids:
            _whole("a stop id", token_id, 0)
        if any(name not in PROCESSOR_NAMES for name in self.order) or len(set(self.order)) != len(self.order):
            names = ", ".join(PROCESSOR_NAMES)
            raise BadInputError(f"order must name each of {names} at most once, not {shown(self.order)}.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def note_for(self, vocab_size: int) -> str | None:
        """What a setting does that its number does not say for a vocabulary of this size, in a sentence or two."""
        notes = []
        if self.top_k > vocab_size:
            keeps = "so it keeps all of them"
            notes.append(f"top_k {self.top_k:,} is above the vocabulary of {vocab_size:,} tokens, {keeps}.")
        for token_id in sorted({token_id for token_id in self.stop_ids if token_id >= vocab_size}):
            notes.append(f"Stop id {token_id} stops nothing: the vocabulary ends at {vocab_size - 1}.")
        return " ".join(notes) or None
