"""What must hold inside a step, whatever the weights are: checked on every row of a replay, largest difference kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.parts import Parts
from miniinfer.trace.replay import StepRows, replay

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState


@dataclass(frozen=True)
class Identity:
    """largest: over all rows and layers, `layer` is where; 0 means bit-equal. by_layer: one each; empty for what is
    checked once a step. allowed: what rounding may do in the model's precision. relative: to the size of the numbers.
    """

    name: str
    statement: str
    largest: float
    layer: int | None
    allowed: float
    relative: bool
    by_layer: tuple[float, ...]

    @property
    def holds(self) -> bool:
        return self.largest <= self.allowed


STATEMENTS = {
    "attention is added": "resid_pre + attn_out = resid_mid",
    "the MLP is added": "resid_mid + mlp_out = resid_post",
    "the stream goes on": "resid_pre of a layer = resid_post of the layer before",
    "the cache holds the keys": "keys read back from the cache = k after RoPE",
    "the cache holds the values": "values read back from the cache = v",
    "RoPE only turns q": "|q| after RoPE = |q| before, for each head",
    "RoPE only turns k": "|k| after RoPE = |k| before, for each key/value head",
    "weights are shares": "each row of attn_pattern sums to 1",
    "nobody looks ahead": "attn_pattern is 0 at later positions",
    "z is a mix of values": "z = attn_pattern @ V, head by head",
    "probabilities are shares": "probs sum to 1",
}
EXACT = (
    "attention is added", "the MLP is added", "the stream goes on", "the cache holds the keys",
    "the cache holds the values", "nobody looks ahead",
)  # fmt: skip
RELATIVE = ("RoPE only turns q", "RoPE only turns k", "z is a mix of values")
ROUNDINGS = 64  # how many roundings of the precision an inexact identity may be off


class IdentityChecks:
    """Observer: `differences[name]` has the largest difference of each layer, or a single one."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._before: dict[str, torch.Tensor] = {}
        self.differences: dict[str, list[float]] = {name: [] for name in STATEMENTS}

    def __call__(self, stage: Stage, state: StepState) -> None:
        check = getattr(self, f"_after_{stage.name}", None)
        if check is not None:
            check(stage, state)

    def _note(self, name: str, difference: torch.Tensor) -> None:
        self.differences[name].append(float(difference.abs().max()) if difference.numel() else 0.0)

    def _after_attn_norm(self, stage: Stage, state: StepState) -> None:
        if stage.layer:
            self._note("the stream goes on", state.resid_pre - self._before["resid_post"])

    def _after_qkv_proj(self, stage: Stage, state: StepState) -> None:
        self._before |= {"q": state.q.float().norm(dim=-1), "k": state.k.float().norm(dim=-1)}

    def _after_rope(self, stage: Stage, state: StepState) -> None:
        for name, now in (("q", state.q), ("k", state.k)):
            before = self._before[name]
            self._note(f"RoPE only turns {name}", (now.float().norm(dim=-1) - before) / before.clamp(min=1e-30))

    def _after_write_kv(self, stage: Stage, state: StepState) -> None:
        for which, (name, written) in enumerate((("keys", state.k), ("values", state.v))):
            self._note(f"the cache holds the {name}", self._cached(stage, state, which)[:, -len(written) :] -
                       written.transpose(0, 1))  # fmt: skip

    def _cached(self, stage: Stage, state: StepState, which: int) -> torch.Tensor:
        """[K, C, D] of the layer: a replay has one sequence, so one group."""
        blocks, context_len = state.block_tables[0], state.groups[0].context_len
        return self._engine.kv_cache.gather(stage.layer, which, blocks, 1, context_len)

    def _after_attn_pattern(self, stage: Stage, state: StepState) -> None:
        pattern, hidden = state.attn_pattern[0], state.groups[0].hidden
        self._note("weights are shares", pattern.float().sum(-1) - 1)
        if hidden is not None:
            self._note("nobody looks ahead", pattern.masked_select(hidden.expand_as(pattern)))

    def _after_attn_mix(self, stage: Stage, state: StepState) -> None:
        import torch

        pattern = state.attn_pattern[0][:, 0]  # [K, G, Tq, C]
        values = self._cached(stage, state, 1)  # [K, C, D]
        mixed = torch.einsum("kgtc,kcd->tkgd", pattern.float(), values.float()).flatten(1, 2)  # [T, H, D]
        self._note("z is a mix of values", (mixed - state.z.float()) / mixed.abs().max().clamp(min=1e-30))

    def _after_attn_out(self, stage: Stage, state: StepState) -> None:
        self._note("attention is added", state.resid_pre + state.attn_out - state.resid_mid)

    def _after_mlp_out(self, stage: Stage, state: StepState) -> None:
        self._note("the MLP is added", state.resid_mid + state.mlp_out - state.resid_post)
        self._before["resid_post"] = state.resid_post

    def _after_softmax(self, stage: Stage, state: StepState) -> None:
        if len(state.probs):
            self._note("probabilities are shares", state.probs.double().sum(-1) - 1)


def check_identities(run: LiveRun, rows: StepRows) -> Parts[tuple[Identity, ...]]:
    """Replay the step and check it. One that has nothing to say in this step (a step that chooses no token has no
    probabilities, a single row has no later positions) is left out. In the engine's thread."""
    import torch

    checks = IdentityChecks(run.engine)
    yield from replay(run, rows, checks)
    rounding = ROUNDINGS * torch.finfo(run.engine.weights.dtype).eps
    found = []
    for name, by_layer in checks.differences.items():
        if not by_layer:
            continue
        largest = max(by_layer, key=lambda d: (d != d, d))  # NaN is larger than all
        once = name == "probabilities are shares"
        layer = None if once else by_layer.index(largest) + (name == "the stream goes on")
        found.append(Identity(
            name, STATEMENTS[name], largest, layer, 0.0 if name in EXACT else rounding, name in RELATIVE,
            () if once else tuple(by_layer),
        ))
    return tuple(found)
