"""Keys and values that are written to the wrong place of the cache, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from miniinfer.engine.engine import Engine
    from miniinfer.engine.stage import StageFunction
    from miniinfer.engine.state import StepState


def written_one_slot_early(_healthy: StageFunction) -> StageFunction:
    def write_kv(engine: Engine, state: StepState) -> None:
        """Store the new keys and values one slot too early once something is cached: over the token before."""
        from miniinfer.engine.placement import place_tokens

        place_tokens(engine, state)
        size = engine.config.block_size
        slots = [
            entry.seq.block_table[position // size] * size + position % size
            for entry in state.scheduled
            for position in (place - (entry.start > 0) for place in range(entry.start, entry.stop))
        ]
        state.slot_mapping = state.slot_mapping.new_tensor(slots)  # [T]
        engine.kv_cache.write(state.layer, state.slot_mapping, state.new_blocks, state.k, state.v)

    return write_kv


def used_block_taken_for_filled(_healthy: StageFunction) -> StageFunction:
    def write_kv(engine: Engine, state: StepState) -> None:
        """Take a block that was freed and handed out again for filled already, and leave in it what lies there.

        So does a prefix cache that forgets to strike a freed block off its list.
        """
        from miniinfer.engine.placement import place_tokens

        place_tokens(engine, state)
        blocks = engine.kv_cache.data[state.layer].index_select(2, state.new_blocks)  # [2, K, new, P, D]
        stale = state.new_blocks[blocks.abs().amax((0, 1, 3, 4)) > 0]
        fresh = state.new_blocks[(state.new_blocks[:, None] != stale).all(1)]
        blocks_written = state.slot_mapping // engine.config.block_size  # [T]
        kept = (blocks_written[:, None] != stale).all(1)  # [T]
        engine.kv_cache.write(state.layer, state.slot_mapping[kept], fresh, state.k[kept], state.v[kept])

    return write_kv
