"""Where the tree of runs puts what: a lane for each run, the x of a position, labels that do not lie on each other.

The x axis counts output tokens from 1, so that runs of different prompts line up; left of 1 stands the prompt, always
equally wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miniinfer.figures.quoting import isolated
from miniinfer.figures.sampling.words import OwnText, percent
from miniinfer.trace.run import Run
from miniinfer.trace.tree import Edge, TreeNode

PROMPT = 0.13  # part of the width that the prompt takes
FEWEST = 8  # output tokens there is room for at the least
PLOT = 560  # px of the plot at the least, for which labels must have room
CHARACTER = 6.6  # px of a character of a label
OFFSET = 9  # px between the middle of a dot and its label
TOKEN = 12  # most characters of a token on an edge


@dataclass(frozen=True)
class Lanes:
    """lane: row by run id, the first is 0. start: the x at which a run's own part begins. prompt: its width in x."""

    nodes: tuple[TreeNode, ...]
    lane: dict[str, int]
    start: dict[str, float]
    prompt: float
    last: float

    @property
    def px(self) -> float:
        """One pixel on the x axis, of the narrowest plot."""
        return (self.last + 1 + self.prompt) / PLOT

    def x_of(self, run: Run, position: int) -> float:
        """Of a position of the run; the prompt's positions share its width."""
        prompt = run.info.num_prompt_tokens
        return position - prompt + 1 if position >= prompt else self.prompt * ((position + 1) / prompt - 1)

    def lane_at(self, run_id: str, x: float) -> int:
        """The lane on which the run's token at this x is drawn: its own, or that of the trunk it is shared with."""
        lane = self.lane[run_id]
        while x < self.start[self.nodes[lane].run.info.run_id] and self.nodes[lane].depth:
            lane = self.lane[self.nodes[lane].run.info.parent or ""]
        return lane


def lanes_of(nodes: Sequence[TreeNode]) -> Lanes:
    """One lane for each node, in their order."""
    last = float(max(FEWEST, *(node.num_outputs for node in nodes)))
    prompt = last * PROMPT / (1 - PROMPT)
    start = {n.run.info.run_id: float(n.output) + 1 if n.depth and n.output is not None else -prompt for n in nodes}
    return Lanes(tuple(nodes), {n.run.info.run_id: i for i, n in enumerate(nodes)}, start, prompt, last)


@dataclass(frozen=True)
class Label:
    """Text beside the dot at (x, lane). branch: it is the branch's token, else what the trunk took at that place."""

    x: float
    lane: int
    text: str
    to_the_left: bool
    branch: bool


def labels_of(lanes: Lanes, text: OwnText) -> list[Label]:
    """What the model assigned to each branch's first token; where there is room also to what its trunk took instead."""
    leaving = sorted((n for n in lanes.nodes if n.depth and n.output is not None), key=lambda n: n.output or 0)
    found: list[Label] = []
    taken: dict[int, list[tuple[float, float]]] = {}

    def put(lane: int, at: int, edge: Edge, branch: bool) -> None:
        words = f"{isolated(short(text(edge.token), TOKEN))} {percent(edge.raw_prob)}"
        width = (OFFSET + CHARACTER * len(words)) * lanes.px
        left = at + 1 + width > lanes.last + 1
        lo = at + 1 - width if left else at + 1.0
        if not branch and any(a < lo + width and lo < b for a, b in taken.get(lane, ())):
            return
        taken.setdefault(lane, []).append((lo, lo + width))
        found.append(Label(at + 1 + (-OFFSET if left else OFFSET) * lanes.px, lane, words, left, branch))

    for node in leaving:
        if node.edge is not None:
            put(lanes.lane[node.run.info.run_id], node.output or 0, node.edge, branch=True)
    for node in leaving:
        if node.instead is not None:
            at = node.output or 0
            put(lanes.lane_at(node.run.info.parent or "", at + 1), at, node.instead, branch=False)
    return found


def ticks(last: float) -> list[int]:
    """Whole numbers from 1 to the last output token, at most 17 of them."""
    step = next((s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if last / s <= 16), int(last / 16))
    return [1, *(n for n in range(step, int(last) + 1, step) if n > 1)]


def choosing(run: Run) -> list[int]:
    """The steps that chose a token, by output index."""
    return [meta.step for meta in run.steps if meta.token_id is not None]


def short(text: str, most: int) -> str:
    """At most so many characters, the last one an ellipsis if there were more."""
    return text if len(text) <= most else text[: most - 1] + "…"
