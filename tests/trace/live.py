"""A live run on the tiny model, for tests of what panels ask."""

from __future__ import annotations

from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.backend import Backend
from miniinfer.engine.engine import Engine
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.live_run import LiveRun
from miniinfer.trace.records import TokenInfo
from miniinfer.trace.run import RunInfo
from tests.engine.tiny import TinyModel, tiny_model

PROMPT = [5, 17, 33, 8, 41, 2, 60]


def token(token_id: int) -> TokenInfo:
    return TokenInfo(token_id, f"<{token_id}>", b"x")


def live_run(
    params: SamplingParams | None = None, *, prompt: list[int] | None = None, chunk: int | None = None,
    model: TinyModel | None = None, budget: TraceBudget | None = None, backend: Backend | None = None,
) -> LiveRun:
    """A run of the tiny model that has not been stepped yet."""
    params = params or SamplingParams(temperature=1.2, top_p=0.9, max_new_tokens=12, seed=3)
    prompt = prompt or PROMPT
    model = model or tiny_model()
    config = EngineConfig(block_size=4, pool_chunk_blocks=4, max_num_batched_tokens=512)
    engine = Engine(model, config, backend=backend)
    seq = engine.add_request(prompt, params, seq_id="r1", prefill_chunk=chunk)
    info = RunInfo(
        run_id="r1", name="r1", kind="live", model_name="tiny", model=model.config, device="cpu", dtype="float32",
        itemsize=4, weight_bytes=1, block_size=4, context_length=96, chat=False, prompt="", params=params,
        num_prompt_tokens=len(prompt), one_pass=chunk is None, default_head=None,
    )
    return LiveRun(engine, seq, info, token, budget or TraceBudget())


def finished_run(**kwargs: object) -> LiveRun:
    run = live_run(**kwargs)  # type: ignore[arg-type]
    while run.step():
        pass
    return run
