"""What a fault is: which stages it replaces, what it claims to do, and in which situation it shows. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from miniinfer.config import ModelConfig, SamplingParams
from miniinfer.faults.replace import Wrap

GREEDY = SamplingParams(temperature=0, top_p=1.0)


@dataclass(frozen=True)
class Situation:
    """What both sides, healthy and broken, are given so that the fault can show.

    sentence: says so on the page, "" if nothing beyond a prompt is needed. setup: stages that are replaced on both
    sides. earlier: a prompt that both engines run and release before, so that its blocks are free again.
    """

    prompt: str
    chat: bool = False
    params: SamplingParams = GREEDY
    sentence: str = ""
    setup: Mapping[str, Wrap] = field(default_factory=dict)
    earlier: str | None = None


@dataclass(frozen=True)
class Met:
    """A failure of this project that was close to a fault. heading: in docs/what-broke.md. words: how close it was."""

    heading: str
    words: str


@dataclass(frozen=True)
class Fault:
    """One classic mistake as a value.

    replaced: stage name -> what takes the function's place. prompt_edit: what happens to the prompt's ids instead.
    first: (stage, tensor) that it claims to change first, in the situation. claim: what it does, in a sentence or two.
    notice: how one would have noticed. guard: the test of this project that fails if the fault is made in earnest.
    detail: the values for this model. met: what we met for real of its kind, if anything.
    """

    id: str
    name: str
    claim: str
    notice: str
    first: tuple[str, str]
    guard: str
    situation: Situation
    replaced: Mapping[str, Wrap] = field(default_factory=dict)
    prompt_edit: Callable[[list[int]], list[int]] | None = None
    detail: Callable[[ModelConfig], str] | None = None
    met: Met | None = None

    @property
    def what_is_replaced(self) -> str:
        """The stages by name, or the input."""
        names = list(self.replaced)
        if len(names) > 3:
            return f"{names[0]} to {names[-1]}"
        return ", ".join(names) if names else "the prompt's ids"
