"""A model and texts from strangers: whatever a browser might run, fetch or lay out wrongly, as names and as tokens."""

from __future__ import annotations

from pathlib import Path

from tests.models import tiny_files

MARK = "window.miniinfer_was_here"
IMAGE = f"<img src=x onerror={MARK}=1>"
SCRIPT = f"<script>{MARK}=2</script>"
MARKDOWN = "![p](http://127.0.0.1:9/p.png) [l](javascript:1) :material/home: $x^2$ **b** `c` # h"
DIRECTION = "\u202eright\u202c \u2066to\u2069 left"
CONTROL = "\u0001\u001b[31m\u0085\u200b\ufeff\u2028"

NAME = f"{IMAGE} $x^2$ :material:home: \u202egif"  # no slash: it is the name of a file
PROMPT = " ".join([SCRIPT, IMAGE, MARKDOWN, DIRECTION, CONTROL])


def write_hostile_model(folder: Path) -> Path:
    """A tiny GGUF file with a hostile name, whose control tokens are hostile too, and random weights."""
    tokens = list(tiny_files.TOKENS)
    tokens[0] = IMAGE
    metadata = tiny_files.METADATA | {
        "general.name": PROMPT, "llama.context_length": 2048, "tokenizer.ggml.tokens": tokens,
    }
    return tiny_files.write_gguf(folder / f"{NAME}.gguf", metadata)
