"""What each stage of a step has to do: bytes and operations, counted from the shapes of the step and the weights.

The rules. Every input is read once and every output written once, as if nothing stayed in a cache of the processor
between two stages and everything did within one: what the stage has to move at least. Weights are read whole, whatever
the number of rows. Attention reads the cached K and V of each of the C positions once, and its scores are the whole
rectangle of rows times keys that the engine computes, hidden ones included. A multiply-add is two operations; any other
arithmetic on a number is one. `test_counting` holds the written bytes against the tensors of a real step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from miniinfer.config import ModelConfig
from miniinfer.engine.stage import Stage
from miniinfer.engine.state import StepState
from miniinfer.engine.weights import Weights
from miniinfer.measure.records import StageCost, TokenCost

INDEX_BYTES = 8  # a token id, a position or a slot is an int64
FLOAT_BYTES = 4  # logits and all that follow are float32


@dataclass(frozen=True)
class StepShape:
    """num_tokens T, num_sampled R; groups: (S, Tq, C) of each attention group; changed: how many logits processors
    made new logits (one that is off makes none)."""

    num_tokens: int
    num_sampled: int
    groups: tuple[tuple[int, int, int], ...]
    changed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, state: StepState, changed: Iterable[str] = ()) -> StepShape:
        """The shape of a step that has been prepared, from its own tensors and groups."""
        groups = tuple((g.num_seqs, g.num_rows, g.context_len) for g in state.groups)
        return cls(len(state.input_ids), len(state.sample_rows), groups, frozenset(changed))

    @classmethod
    def decode(cls, context_len: int) -> StepShape:
        """One sequence, one token, `context_len` positions in the cache after it."""
        return cls(1, 1, ((1, 1, context_len),))

    @classmethod
    def prefill(cls, num_tokens: int) -> StepShape:
        """A whole prompt in one pass."""
        return cls(num_tokens, 1, ((1, num_tokens, num_tokens),))


@dataclass(frozen=True)
class Counts:
    """One stage's numbers, before they have a name."""

    weights: int = 0
    kv: int = 0
    inputs: int = 0
    written: int = 0
    operations: int = 0


class _Counter:
    """The rules, one method a stage. Shape letters: see config."""

    def __init__(self, weights: Weights, config: ModelConfig, shape: StepShape) -> None:
        self.weights, self.shape = weights, shape
        self.item = weights.dtype.itemsize
        self.T, self.R = shape.num_tokens, shape.num_sampled
        self.E, self.F, self.V = config.hidden_size, config.intermediate_size, config.vocab_size
        self.H, self.K, self.D = config.num_heads, config.num_kv_heads, config.head_dim
        self.pairs = sum(S * Tq * C for S, Tq, C in shape.groups)  # rows times keys, of one head
        self.keys = sum(S * C for S, _, C in shape.groups)  # positions read, of one K/V head

    # Before the layers

    def schedule(self, layer: int | None) -> Counts:
        return Counts()  # lists of Python: no tensor

    def prepare_inputs(self, layer: int | None) -> Counts:
        angles = 2 * self.T * self.D  # cosines and sines
        return Counts(written=2 * self.T * INDEX_BYTES + angles * self.item, operations=angles)

    def embed(self, layer: int | None) -> Counts:
        rows = self.T * (self.weights.embedding.nbytes // self.V)  # in the storage type of the file
        return Counts(weights=rows, inputs=self.T * INDEX_BYTES, written=self.T * self.E * self.item)

    # A layer

    def attn_norm(self, layer: int | None) -> Counts:
        return self._norm(self.weights.layers[self._of(layer)].attn_norm.nbytes)

    def qkv_proj(self, layer: int | None) -> Counts:
        return self._product(self.weights.layers[self._of(layer)].qkv.nbytes, self.E, (self.H + 2 * self.K) * self.D)

    def rope(self, layer: int | None) -> Counts:
        turned = self.T * (self.H + self.K) * self.D
        angles = 2 * self.T * self.D
        return Counts(inputs=(turned + angles) * self.item, written=turned * self.item, operations=3 * turned)

    def write_kv(self, layer: int | None) -> Counts:
        rows = 2 * self.T * self.K * self.D * self.item
        return Counts(inputs=rows + self.T * INDEX_BYTES, written=rows)

    def attn_scores(self, layer: int | None) -> Counts:
        scores = self.H * self.pairs
        return Counts(
            kv=self.keys * self.K * self.D * self.item, inputs=self.T * self.H * self.D * self.item,
            written=scores * self.item, operations=scores * (2 * self.D + 1),  # and the division by the root of D
        )

    def attn_pattern(self, layer: int | None) -> Counts:
        scores = self.H * self.pairs
        # The largest, the difference from it, the exponential, the sum, the quotient.
        return Counts(inputs=scores * self.item, written=scores * self.item, operations=5 * scores)

    def attn_mix(self, layer: int | None) -> Counts:
        scores = self.H * self.pairs
        return Counts(
            kv=self.keys * self.K * self.D * self.item, inputs=scores * self.item,
            written=self.T * self.H * self.D * self.item, operations=2 * scores * self.D,
        )

    def attn_out(self, layer: int | None) -> Counts:
        return self._product_and_add(self.weights.layers[self._of(layer)].attn_out.nbytes, self.H * self.D)

    def mlp_norm(self, layer: int | None) -> Counts:
        return self._norm(self.weights.layers[self._of(layer)].mlp_norm.nbytes)

    def mlp_hidden(self, layer: int | None) -> Counts:
        made = self.T * self.F
        # silu is an exponential, a sum, a quotient; then gate times up.
        return Counts(
            weights=self.weights.layers[self._of(layer)].gate_up.nbytes, inputs=self.T * self.E * self.item,
            written=made * self.item, operations=2 * self.T * self.E * 2 * self.F + 4 * made,
        )

    def mlp_out(self, layer: int | None) -> Counts:
        return self._product_and_add(self.weights.layers[self._of(layer)].down.nbytes, self.F)

    # After the layers

    def final_norm(self, layer: int | None) -> Counts:
        return self._norm(self.weights.final_norm.nbytes)

    def unembed(self, layer: int | None) -> Counts:
        if self.R == 0:
            return Counts()  # nobody is sampled in this step, and the matrix is not touched
        return Counts(
            weights=self.weights.unembed.nbytes, inputs=self.R * self.E * self.item,
            written=self.R * self.V * FLOAT_BYTES, operations=2 * self.R * self.E * self.V,
        )

    def softmax(self, layer: int | None) -> Counts:
        logits = self.R * self.V
        return Counts(inputs=logits * FLOAT_BYTES, written=logits * FLOAT_BYTES, operations=5 * logits)

    def sample(self, layer: int | None) -> Counts:
        return Counts(inputs=self.R * self.V * FLOAT_BYTES, operations=self.R * self.V)

    def commit(self, layer: int | None) -> Counts:
        return Counts()  # counts and lists of Python

    def processor(self) -> Counts:
        """A processor that changes logits: at the least it looks at each and writes it."""
        logits = self.R * self.V
        return Counts(inputs=logits * FLOAT_BYTES, written=logits * FLOAT_BYTES, operations=logits)

    # Patterns

    def _of(self, layer: int | None) -> int:
        assert layer is not None
        return layer

    def _norm(self, weight: int) -> Counts:
        """Square, sum, scale by the root, scale by the weight: four operations a number."""
        numbers = self.T * self.E
        return Counts(weight, inputs=numbers * self.item, written=numbers * self.item, operations=4 * numbers)

    def _product(self, weight: int, wide: int, out: int) -> Counts:
        return Counts(
            weight, inputs=self.T * wide * self.item, written=self.T * out * self.item,
            operations=2 * self.T * wide * out,
        )

    def _product_and_add(self, weight: int, wide: int) -> Counts:
        """To E numbers a row, kept by themselves and added to the residual stream."""
        made = self.T * self.E
        return Counts(
            weight, inputs=(self.T * wide + made) * self.item, written=2 * made * self.item,
            operations=2 * self.T * wide * self.E + made,
        )


def count_stage(stage: Stage, weights: Weights, config: ModelConfig, shape: StepShape) -> StageCost:
    """What one stage of a step of this shape has to do."""
    counter = _Counter(weights, config, shape)
    if stage.processor is not None:
        counts = counter.processor() if stage.name in shape.changed else Counts()
    else:
        rule: Callable[[int | None], Counts] = getattr(counter, stage.name)
        counts = rule(stage.layer)
    return StageCost(
        stage.name, stage.layer, counts.weights, counts.kv, counts.inputs, counts.written, counts.operations
    )


def count_step(
    program: Iterable[Stage], weights: Weights, config: ModelConfig, shape: StepShape
) -> tuple[StageCost, ...]:
    """Every stage of the program in its order."""
    return tuple(count_stage(stage, weights, config, shape) for stage in program)


def token_cost(
    program: Iterable[Stage], weights: Weights, config: ModelConfig, context_len: int
) -> TokenCost:
    """A decode step of one sequence, its parts summed."""
    costs = count_step(program, weights, config, StepShape.decode(context_len))
    return TokenCost(
        context_len, sum(c.weight_bytes for c in costs), sum(c.kv_bytes for c in costs),
        sum(c.input_bytes + c.written_bytes for c in costs),
    )
