"""Six prompts, each with something to see; tests run them all and check what their titles promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Example:
    title: str
    prompt: str
    kind: Literal["raw", "chat"]


EXAMPLES = (
    Example("A fact: one clear winner", "The capital of France is", "raw"),
    Example("A story: many ways to go on", "Once upon a time there was a", "raw"),
    Example("A repeated pattern: attention finds the copy", "tiger lamp spoon river, tiger lamp spoon", "raw"),
    Example("Numbers: digits are tokens", "2, 4, 6, 8, 10,", "raw"),
    Example("One emoji, several tokens", "I love my pet parrot 🦜", "raw"),
    Example("A question in chat", "What is the opposite of hot? Answer in one word.", "chat"),
)
