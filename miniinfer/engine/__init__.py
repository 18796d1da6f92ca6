"""The inference engine: a step is a program of small stages over a paged KV cache. Start reading at engine.py."""
