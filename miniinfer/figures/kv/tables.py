"""The KV cache as tables: one row a number, a position, a block, a copy, a step or a line of the growth figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from miniinfer.figures.kv.shapes import GhostLine
from miniinfer.trace.kv.pool import PoolView
from miniinfer.trace.kv.prediction import written_bytes
from miniinfer.trace.kv.vectors import CachedVectors, Reading
from miniinfer.trace.records import FloatArray, StepMeta

PositionText = Callable[[int], str]  # the token at a position, with every character visible


def vector_table(cached: CachedVectors, position: int, reading: Reading | None = None) -> pd.DataFrame:
    """The D numbers of one key and one value, exact; with a reading, the newest queries that share them."""
    frame = pd.DataFrame(
        {"dim": range(cached.keys.shape[1]), "K (after RoPE)": cached.keys[position], "V": cached.values[position]}
    )
    for g, head in enumerate(reading.heads if reading else ()):
        assert reading is not None
        frame[f"q of head {head}, not cached"] = reading.q[g]
    return frame


def cache_table(cached: CachedVectors, text: PositionText) -> pd.DataFrame:
    """All positions of this layer and KV head, one row each: where it lies, then its numbers, exact."""
    places = pd.DataFrame(
        {
            "position": range(cached.context_len), "token": [text(p) for p in range(cached.context_len)],
            "block": [block for block, _ in cached.block_of], "slot": [slot for _, slot in cached.block_of],
        }
    )  # fmt: skip
    numbers = {f"{name}{d}": part[:, d] for name, part in (("k", cached.keys), ("v", cached.values))
               for d in range(part.shape[1])}  # fmt: skip
    return pd.concat([places, pd.DataFrame(numbers)], axis=1)


def reading_table(cached: CachedVectors, reading: Reading, text: PositionText) -> pd.DataFrame:
    """One row a position: score and weight of each query head that reads this KV head."""
    positions = range(reading.position + 1)
    frame = pd.DataFrame(
        {
            "position": positions, "token": [text(p) for p in positions],
            "block": [cached.block_of[p][0] for p in positions],
        }
    )  # fmt: skip
    for g, head in enumerate(reading.heads):
        frame[f"score, head {head}"] = reading.scores[g]
        frame[f"weight, head {head}"] = reading.weights[g]
    return frame


def blocks_table(pool: PoolView) -> pd.DataFrame:
    """Every physical block of the pool."""
    return pd.DataFrame(
        [
            {
                "block": b.number, "state": _state(b.ref_count), "ref_count": b.ref_count,
                "owners": ", ".join(b.owners),
                "filled slots": b.filled, "empty slots": pool.block_size - b.filled,
                "used bytes": b.filled * pool.position_bytes, "allocated bytes": pool.block_bytes * (b.ref_count > 0),
            }
            for b in pool.blocks
        ],
        columns=["block", "state", "ref_count", "owners", "filled slots", "empty slots", "used bytes",
                 "allocated bytes"],
    )  # fmt: skip


def _state(ref_count: int) -> str:
    return "free" if ref_count == 0 else "shared" if ref_count > 1 else "used"


def block_table(pool: PoolView) -> pd.DataFrame:
    """The run's block table: logical to physical."""
    return pd.DataFrame(
        [
            {
                "logical": e.index, "physical": e.block, "positions": _span(e.start, e.stop),
                "filled": e.stop - e.start,
                "ref_count": e.ref_count, "shared with": ", ".join(e.shared_with),
            }
            for e in pool.table
        ],
        columns=["logical", "physical", "positions", "filled", "ref_count", "shared with"],
    )  # fmt: skip


def _span(start: int, stop: int) -> str:
    return "" if stop == start else f"{start}" if stop - start == 1 else f"{start} to {stop - 1}"


def copies_table(pool: PoolView) -> pd.DataFrame:
    """Every copy-on-write of the runs that exist, in order. The step that wrote `position` copied `slots` slots."""
    return pd.DataFrame(
        [
            {
                "run": c.run_id, "step": c.step, "position": c.position, "logical": c.index,
                "from": c.source,
                "to": c.target, "slots": c.num_positions, "bytes": c.bytes,
            }
            for c in pool.copies
        ],
        columns=["run", "step", "position", "logical", "from", "to", "slots", "bytes"],
    )  # fmt: skip


def block_sizes_table(num_positions: int, position_bytes: int, sizes: Iterable[int], now: int) -> pd.DataFrame:
    """What this many positions would take with other block sizes. All other things equal; nothing is shared."""
    rows = []
    for size in sizes:
        blocks = -(-num_positions // size)
        waste = blocks * size - num_positions
        rows.append({
            "block size": size, "": "this run" if size == now else "", "blocks": blocks,
            "allocated bytes": blocks * size * position_bytes, "empty slots": waste,
            "wasted bytes": waste * position_bytes, "wasted": waste / (blocks * size) if blocks else 0.0,
        })
    return pd.DataFrame(rows)


def steps_table(steps: Sequence[StepMeta]) -> pd.DataFrame:
    """The three numbers after every step, and what each step wrote into and read from the cache."""
    return pd.DataFrame(
        [
            {
                "step": m.step, "phase": m.phase, "tokens computed": m.num_scheduled, "positions": m.context_len,
                "used bytes": m.kv_used_bytes, "allocated bytes": m.kv_allocated_bytes,
                "reserved bytes": m.kv_reserved_bytes, "written bytes": written_bytes(m), "read bytes": m.kv_bytes_read,
            }
            for m in steps
        ],
        columns=["step", "phase", "tokens computed", "positions", "used bytes", "allocated bytes", "reserved bytes",
                 "written bytes", "read bytes"],
    )  # fmt: skip


def lines_table(lines: Sequence[GhostLine], memory_bytes: int) -> pd.DataFrame:
    """Every line of the growth figure: its factors, and where the card is full."""
    return pd.DataFrame(
        [
            {
                "line": line.label, "layers": line.shape.num_layers, "query heads": line.shape.num_heads,
                "KV heads": line.shape.num_kv_heads, "head dim": line.shape.head_dim, "bytes a number": line.itemsize,
                "bytes a position": line.position_bytes, "weights bytes": line.base_bytes,
                "context": line.shape.context_length,
                "cache bytes at full context": line.shape.context_length * line.position_bytes,
                "card is full at": line.full_at(memory_bytes),
            }
            for line in lines
        ]
    ).astype({"card is full at": "Int64"})  # fmt: skip


def norms_table(norms: FloatArray, text: PositionText) -> pd.DataFrame:
    """norms [n, L, 2]: L2 norms of K and V over all KV heads, one row a position and layer."""
    count, layers, _ = norms.shape
    return pd.DataFrame({
        "position": [p for p in range(count) for _ in range(layers)],
        "token": [text(p) for p in range(count) for _ in range(layers)],
        "layer": list(range(layers)) * count, "norm of K": norms[:, :, 0].ravel(), "norm of V": norms[:, :, 1].ravel(),
    })
