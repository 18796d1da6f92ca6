"""The memory of one shape of decode step, and the stages that were kept in it. Every step of that shape uses it again.

The shape is S sequences with one row each, whose block tables have room for B blocks; a context is filled up to
C = B * P positions that nobody may look at. So no size changes from step to step, which is what a captured graph needs.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from miniinfer.engine.graph.capture import Fields, Job, Keep, KeptStage
from miniinfer.engine.graph.fixed_cache import FixedCache
from miniinfer.engine.groups import AttnGroup
from miniinfer.engine.state import StepState

if TYPE_CHECKING:
    from miniinfer.config import ModelConfig
    from miniinfer.engine.block_pool import BlockPool
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.graph.step import GraphStep
    from miniinfer.engine.stage import Stage, StageFunction
    from miniinfer.engine.weights import Weights

KEPT_FIELDS = frozenset((
    "resid_pre", "attn_norm_out", "q", "k", "v", "attn_scores", "attn_pattern", "z", "attn_out", "resid_mid",
    "mlp_norm_out", "mlp_hidden", "mlp_out", "resid_post", "final_norm_out",
))  # fmt: skip
SHORTEST = 64  # positions: shorter contexts are filled up to so many


def table_size(context_len: int, block_size: int, context_length: int) -> int:
    """Blocks that a table has room for: a power of two, so that there are few shapes, but no more than the longest
    context needs."""
    needed = -(-max(context_len, SHORTEST) // block_size)
    return max(-(-context_len // block_size), min(1 << (needed - 1).bit_length(), -(-context_length // block_size)))


@dataclass(frozen=True)
class _View:
    """What the kept stages ask an engine for."""

    weights: Weights
    model_config: ModelConfig
    pool: BlockPool
    kv_cache: FixedCache


class StepMemory:
    """fixed: by field, what the stage after the newest kept one reads, always the same tensors."""

    def __init__(self, engine: Engine, num_rows: int, num_blocks: int, keep: Keep) -> None:
        config, device, dtype = engine.model_config, engine.device, engine.weights.dtype
        self.cache = FixedCache(engine.kv_cache, num_rows, num_blocks)
        self.context_len = num_blocks * engine.config.block_size  # C
        self._view = _View(engine.weights, config, engine.pool, self.cache)
        self._keep = keep
        self._stages: dict[tuple[str, int | None], KeptStage] = {}
        self.jobs: list[Job] = []  # of the kept stages, in the order of the program
        self._positions = torch.arange(self.context_len, device=device)
        self._hidden = torch.zeros((num_rows, 1, 1, self.context_len), dtype=torch.bool, device=device)
        angles = (num_rows, 1, config.head_dim)
        self.fixed: dict[str, Any] = {
            "resid_pre": torch.zeros((num_rows, config.hidden_size), dtype=dtype, device=device),
            "rope_cos": torch.zeros(angles, dtype=dtype, device=device),
            "rope_sin": torch.zeros(angles, dtype=dtype, device=device),
            "slot_mapping": torch.zeros(num_rows, dtype=torch.int64, device=device),
            "new_blocks": torch.zeros(0, dtype=torch.int64, device=device),  # cleared by `load_places`
            "groups": (AttnGroup(0, num_rows, 0, 1, (self.context_len,) * num_rows, self._hidden),),
            "block_tables": (self.cache.places,),
        }
        self._inputs = {name: self.fixed[name] for name in ("resid_pre", "rope_cos", "rope_sin")}
        self._lease: weakref.ref[GraphStep] | None = None

    def fits(self, engine: Engine) -> bool:
        """False once the pool has moved."""
        return self.cache.data is engine.kv_cache.data

    @property
    def in_use(self) -> bool:
        """True while the step that used it last, or a copy of it, may still be looked at."""
        step = self._lease() if self._lease is not None else None
        return step is not None and step.is_open

    def lend(self, step: GraphStep) -> None:
        self._lease = weakref.ref(step)

    def load_inputs(self, state: StepState) -> None:
        """What the first layer begins with: embedded tokens and the angles of their positions."""
        for name, tensor in self._inputs.items():
            tensor.copy_(getattr(state, name))

    def load_places(self, engine: Engine, state: StepState) -> None:
        """Where this step's tokens are written, and what attention reads and must not look at."""
        size = engine.config.block_size
        self.fixed["slot_mapping"].copy_(state.slot_mapping)
        tables = [entry.seq.block_table[: -(-entry.stop // size)] for entry in state.scheduled]
        self.cache.load(tables)
        # The rest of the last block is read too here: a step that was abandoned may have left anything in it.
        self.cache.clear([
            table[-1] * size + place
            for table, entry in zip(tables, state.scheduled, strict=True)
            for place in range((entry.stop - 1) % size + 1, size)
        ])
        lens = torch.tensor([entry.stop for entry in state.scheduled], device=engine.device)
        torch.ge(self._positions, lens[:, None, None, None], out=self._hidden)

    @torch.inference_mode()
    def run_all(self) -> None:
        """Every kept stage once more, on what lies in the inputs now."""
        for kept in self._stages.values():
            kept.run()

    def run(self, stage: Stage, fn: StageFunction) -> Fields:
        """Run a stage, for the first time in this memory or again: where it has written. Raises CaptureError."""
        key = stage.name, stage.layer
        kept = self._stages.get(key)
        if kept is not None:
            kept.run()
            return kept.fields
        inputs = {name: self.fixed[name] for name in (*stage.reads, *stage.writes) if name in self.fixed}
        outputs = [name for name in stage.writes if name in KEPT_FIELDS]

        def job() -> Fields:
            state = StepState(stage=stage, pool_version=self._view.pool.version, **inputs)
            fn(cast("Engine", self._view), state)
            return {name: getattr(state, name) for name in outputs}

        kept = self._stages[key] = self._keep(job)
        self.jobs.append(job)
        self.fixed.update(kept.fields)
        return kept.fields
