"""The stages of a step, one small function each, in the order in which they run: inputs, then attention and mlp for
every layer, then output. program.py strings them together."""

from miniinfer.engine.stage import Observer, Stage

__all__ = ["Observer", "Stage"]
