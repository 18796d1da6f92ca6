"""The runs of a session as a tree of branches: what the edges had as probability, and which KV blocks they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.run import ForceToken, Run


@dataclass(frozen=True)
class TreeNode:
    """A run, and the edge that leads to it from its trunk.

    depth: 0 for a root. token: what the branch took where it left its trunk, None for a root. raw_prob, used_prob: what
    the model and the sampler's settings there gave this token. kv_bytes: the blocks this run holds; shared_bytes: those
    of them that its trunk holds too, so that they stand in memory once. first_difference: index, from 0, of the first
    output token that differs from the trunk's; None if there is none so far.
    """

    run: Run
    depth: int
    token: TokenInfo | None
    forced: bool
    raw_prob: float | None
    used_prob: float | None
    kv_bytes: int | None
    shared_bytes: int | None
    first_difference: int | None


def tree_of(runs: Iterable[Run]) -> tuple[TreeNode, ...]:
    """Depth first, each branch below its trunk. A branch whose trunk is gone is a root."""
    by_id = {run.info.run_id: run for run in runs}

    def walk(parent: str | None, depth: int) -> Iterator[TreeNode]:
        for run in by_id.values():
            above = run.info.parent if run.info.parent in by_id else None
            if above == parent:
                yield _node(run, by_id.get(parent) if parent else None, depth)
                yield from walk(run.info.run_id, depth + 1)

    return tuple(walk(None, 0))


def _node(run: Run, trunk: Run | None, depth: int) -> TreeNode:
    edit = run.info.edit
    token = raw = used = None
    if edit is not None:
        found = run.next_token(edit.step)
        if found is not None and found.token_id is not None:
            at = next(i for i, t in enumerate(found.tokens) if t.token_id == found.token_id)
            token, raw, used = found.tokens[at], found.raw_probs[at], found.used_probs[at]
    own = shared = None
    if isinstance(run, LiveRun):
        block = run.engine.kv_cache.block_bytes
        own = len(run.seq.block_table) * block
        if isinstance(trunk, LiveRun):
            shared = len(set(run.seq.block_table) & set(trunk.seq.block_table)) * block
    return TreeNode(
        run, depth, token, isinstance(edit, ForceToken), raw, used, own, shared,
        _first_difference(run, trunk) if trunk is not None else None,
    )


def _first_difference(run: Run, trunk: Run) -> int | None:
    prompt = run.info.num_prompt_tokens
    pairs = zip(run.tokens[prompt:], trunk.tokens[prompt:], strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.token_id != b.token_id), None)
