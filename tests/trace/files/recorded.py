"""A small recorded run for tests of what only reads: random attention rows, so nothing here is about a model."""

from __future__ import annotations

import numpy as np

from miniinfer.config import ModelConfig, SamplingParams
from miniinfer.trace.files.recorded_run import RecordedRun
from miniinfer.trace.pooling import to_u8
from miniinfer.trace.records import NextToken, StepMeta, TokenInfo
from miniinfer.trace.run import RunInfo

CONFIG = ModelConfig("llama", 3, 4, 2, 8, 24, 40, 300, 512, 10000.0, 1e-5, True)


def make_run(prompt: int = 5, decoded: int = 3, run_id: str = "t1", texts: str = "abcdefghijklmnop") -> RecordedRun:
    """One prefill step of `prompt` tokens that samples, then `decoded` decode steps."""
    rng = np.random.default_rng(7)
    length = prompt + decoded
    tokens = [TokenInfo(i, texts[i % len(texts)], texts[i % len(texts)].encode()) for i in range(length + 1)]
    pattern = []
    for i in range(length):
        weights = rng.random((CONFIG.num_layers, CONFIG.num_heads, i + 1), np.float32)
        pattern.append(to_u8(weights / weights.sum(-1, keepdims=True)))
    steps = [_meta(1, "prefill", prompt, prompt)]
    steps += [_meta(2 + i, "decode", 1, prompt + 1 + i) for i in range(decoded)]
    info = RunInfo(
        run_id=run_id, name="test", kind="recorded", model_name="tiny", model=CONFIG, device="cpu", dtype="float32",
        itemsize=4, weight_bytes=1000, block_size=16, context_length=512, chat=False, prompt="abcde",
        num_prompt_tokens=prompt, params=SamplingParams(), one_pass=True, default_head=(1, 2),
    )
    norms = rng.random((length, CONFIG.num_layers, 2), np.float32)
    probs = np.concatenate([[np.float32("nan")], rng.random(length, np.float32)])
    nexts = [_next(tokens, i + 1) for i in range(length)]
    return RecordedRun(info, "length", steps, tokens, nexts, pattern, norms, probs)


def _meta(step: int, phase: str, count: int, context_len: int) -> StepMeta:
    token = context_len
    return StepMeta(
        step, phase, count, context_len, 12.5, {"qkv_proj": 4.0, "mlp_out": 2.0, "commit": 0.5}, token, False, -0.5,
        0.25, context_len * 384, -(-context_len // 16) * 16 * 384, 256 * 384, 1000, context_len * 384,
    )  # type: ignore[arg-type]


def _next(tokens: list[TokenInfo], chosen: int) -> NextToken:
    shown = (tokens[chosen], tokens[0])
    return NextToken(
        shown, (0.5, 0.2), (1.0, 0.0), (None, "top_p"), 1, 298, 0.3, 0.0, 2.0, 0.0, 0.8, False, 0.25, 0.0, 1.0, chosen
    )
