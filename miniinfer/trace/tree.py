"""The runs of a session as a tree of branches: what the edges had as probability, and which KV cache they share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from miniinfer.trace.compare import compare_tokens
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import NextToken, TokenInfo
from miniinfer.trace.run import ForceToken, Run


@dataclass(frozen=True)
class Edge:
    """A token that was taken where a branch left its trunk: what the model and what the settings there gave it."""

    token: TokenInfo
    raw_prob: float
    used_prob: float


@dataclass(frozen=True)
class KVShare:
    """A run's KV cache in bytes, and what of it its trunk holds too, so that it stands in memory once.

    Used bytes are those of positions, allocated bytes those of whole blocks. taken_over: positions whose K and V the
    branch found in the cache and did not compute, also where their block was copied since; 0 for a root.
    shared_positions: the first positions that both runs read from the same blocks; None where there is no trunk.
    """

    positions: int
    used_bytes: int
    allocated_bytes: int
    taken_over: int
    shared_positions: int | None
    shared_used_bytes: int | None
    shared_allocated_bytes: int | None


@dataclass(frozen=True)
class Sharer:
    """A branch of a run, or a branch of that, which reads the run's first `positions` positions from the same blocks.

    used_bytes: of the positions; allocated_bytes: of the blocks.
    """

    run_id: str
    positions: int
    used_bytes: int
    allocated_bytes: int


@dataclass(frozen=True)
class TreeNode:
    """A run, and the edge that leads to it from its trunk.

    depth: 0 for a root. output: index, from 0, of the output token at which it left its trunk, and edge: what it took
    there; None for a root without an edit. instead: what the trunk took there. first_difference: index, from 0, of the
    first output token that differs from the trunk's; None if there is none so far. kv: None for a recorded run.
    sharers: those below this run in the tree that still hold some of its blocks.
    """

    run: Run
    depth: int
    forced: bool
    output: int | None
    edge: Edge | None
    instead: Edge | None
    first_difference: int | None
    kv: KVShare | None
    sharers: tuple[Sharer, ...] = ()

    @property
    def num_outputs(self) -> int:
        return len(self.run.tokens) - self.run.info.num_prompt_tokens


def tree_of(runs: Iterable[Run]) -> tuple[TreeNode, ...]:
    """Depth first, each branch below its trunk, the branch that left last nearest to it: so no edge crosses a branch.

    A branch whose trunk is gone is a root.
    """
    by_id = {run.info.run_id: run for run in runs}

    def walk(parent: str | None, depth: int) -> Iterator[TreeNode]:
        children = [r for r in by_id.values() if (r.info.parent if r.info.parent in by_id else None) == parent]
        if parent is not None:
            children.sort(key=lambda r: -r.info.edit.step if r.info.edit else 0)
        for run in children:
            yield _node(run, by_id[parent] if parent else None, depth)
            yield from walk(run.info.run_id, depth + 1)

    nodes = tuple(walk(None, 0))
    return tuple(replace(node, sharers=tuple(_sharers(node, nodes[place + 1 :]))) for place, node in enumerate(nodes))


def _sharers(node: TreeNode, after: Sequence[TreeNode]) -> Iterator[Sharer]:
    """after: the nodes that follow this one; the first ones that are deeper are those below it."""
    common = {node.run.info.run_id: math.inf}  # positions that a run below has in common with this one
    for below in after:
        if below.depth <= node.depth:
            return
        if below.kv is None or not isinstance(node.run, LiveRun) or not isinstance(below.run, LiveRun):
            continue
        common[below.run.info.run_id] = most = min(common.get(below.run.info.parent or "", 0), below.kv.taken_over)
        blocks = len(set(node.run.seq.block_table) & set(below.run.seq.block_table))
        cache = node.run.engine.kv_cache
        positions = min(blocks * cache.block_size, int(most))
        if positions:
            yield Sharer(
                below.run.info.run_id, positions, positions * cache.position_bytes, blocks * cache.block_bytes
            )


def _node(run: Run, trunk: Run | None, depth: int) -> TreeNode:
    edit = run.info.edit
    output = edge = instead = None
    if edit is not None:
        output = sum(meta.token_id is not None for meta in run.steps[: edit.step - 1])
        edge = _edge(run.next_token(edit.step))
        instead = _edge(trunk.next_token(edit.step)) if trunk is not None else None
    return TreeNode(
        run, depth, isinstance(edit, ForceToken), output, edge, instead,
        compare_tokens(run, trunk).first_difference if trunk is not None else None, _share(run, trunk),
    )


def _edge(found: NextToken | None) -> Edge | None:
    if found is None or found.token_id is None:
        return None
    at = next(i for i, t in enumerate(found.tokens) if t.token_id == found.token_id)
    return Edge(found.tokens[at], found.raw_probs[at], found.used_probs[at])


def _share(run: Run, trunk: Run | None) -> KVShare | None:
    if not isinstance(run, LiveRun):
        return None
    cache, edit = run.engine.kv_cache, run.info.edit
    positions, table = run.seq.num_computed_tokens, run.seq.block_table
    taken_over = run.steps[edit.step - 1].context_len if edit is not None else 0
    shared = blocks = None
    if isinstance(trunk, LiveRun):
        blocks = len(set(table) & set(trunk.seq.block_table))
        shared = min(blocks * cache.block_size, taken_over)  # shared blocks are the first of both tables
    return KVShare(
        positions, positions * cache.position_bytes, len(table) * cache.block_bytes, taken_over, shared,
        None if shared is None else shared * cache.position_bytes,
        None if blocks is None else blocks * cache.block_bytes,
    )
