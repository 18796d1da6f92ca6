"""Batches that show one thing each. Data; tests/trace/batch/test_presets.py runs them and looks that they show it."""

from __future__ import annotations

from dataclasses import dataclass

from miniinfer.config import SamplingParams
from miniinfer.trace.batch.settings import BatchRequest, BatchSettings


@dataclass(frozen=True)
class Preset:
    """name: as users read it. shows: what to look for, in a sentence or two."""

    name: str
    shows: str
    requests: tuple[BatchRequest, ...]
    settings: BatchSettings


def _request(
    number: int, prompt: str, max_new_tokens: int, arrival: int = 0, temperature: float = 0.0, chat: bool = False
) -> BatchRequest:
    params = SamplingParams(temperature=temperature, seed=number, max_new_tokens=max_new_tokens)
    return BatchRequest(f"r{number}", prompt, params, arrival, chat)


_SHORT = (
    "The capital of France is", "Water boils at", "The opposite of hot is", "Two plus two is", "The sun rises in the",
    "A week has seven", "The colour of grass is",
)  # fmt: skip

ONE_LONG = Preset(
    "One long, seven short",
    "Static batching keeps seven finished rows until the long one ends, and those who come later wait for all of it. "
    "Continuous batching lets them go, and the later ones in.",
    (
        _request(1, "Once upon a time, in a small village by the sea, there lived", 40),
        *(_request(i + 2, prompt, 6, arrival=0 if i < 3 else 4) for i, prompt in enumerate(_SHORT)),
    ),
    BatchSettings(max_seqs=4, token_budget=64, num_blocks=10),
)

_SYSTEM = (
    "You are a careful assistant for a small library. Answer in one short sentence, politely, and name the shelf where "
    "the reader should look. The shelves are called history, nature, travel, cooking, music and stories. If you do not "
    "know the answer, say so and send the reader to the desk.\n\nReader: "
)
_QUESTIONS = (
    "Where are the books about whales?", "I would like to bake bread.", "Do you have maps of Italy?",
    "Who was Napoleon?", "My daughter wants fairy tales.", "How do I tune a guitar?",
)  # fmt: skip

SHARED_PROMPT = Preset(
    "Shared system prompt",
    "All requests begin with the same text. The first one computes it; those who come later find its blocks, take them "
    "as their own and compute only their question.",
    tuple(
        _request(i + 1, f"{_SYSTEM}{question}\nLibrarian:", 14, arrival=0 if i == 0 else 2 + i)
        for i, question in enumerate(_QUESTIONS)
    ),
    BatchSettings(max_seqs=6, token_budget=96, num_blocks=40),
)

OUT_OF_BLOCKS = Preset(
    "Out of blocks",
    "Every request may start, but all of them cannot grow: the pool runs out, and the one that arrived last is "
    "preempted. It gives its blocks back and computes prompt and output again when it returns, with the same tokens.",
    tuple(
        _request(i + 1, prompt, 26, temperature=0.8)
        for i, prompt in enumerate((
            "The river runs down from the hills, past the old mill and",
            "In the morning the baker opens his shop and",
            "A long time ago the people of the valley built",
            "The ship left the harbour at night, and nobody",
            "My grandmother told me that the winter of that year",
        ))
    ),
    BatchSettings(max_seqs=5, token_budget=64, block_size=8, num_blocks=14, prefix_caching=False),
)

PRESETS: tuple[Preset, ...] = (ONE_LONG, SHARED_PROMPT, OUT_OF_BLOCKS)
