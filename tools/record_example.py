"""Make the recorded run that ships with the project: `python -m tools.record_example`. The real model, float32, CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from miniinfer import Engine, SamplingParams, load_model
from miniinfer.config import EngineConfig
from miniinfer.trace.budget import TraceBudget
from miniinfer.trace.file_format import save_trace
from miniinfer.trace.live_run import LiveRun
from miniinfer.ui.examples import EXAMPLES
from miniinfer.ui.run_facts import run_info
from miniinfer.ui.session_memory import EXAMPLE
from miniinfer.ui.tokens import describe_token, encode_prompt

OUT = Path(EXAMPLE)


def main() -> None:
    example, params = EXAMPLES[0], SamplingParams(max_new_tokens=32)
    model = load_model(device="cpu", dtype="float32")
    engine = Engine(model, EngineConfig(max_num_batched_tokens=2048))
    ids = encode_prompt(model, example.prompt, chat=example.kind == "chat")
    seq = engine.add_request(ids, params)
    info = run_info(engine, model, "example", example.prompt, len(ids), params, chat=False, one_pass=True)
    run = LiveRun(engine, seq, info, lambda i: describe_token(model, i), TraceBudget())
    while run.step():
        pass
    run.info = dataclasses.replace(run.info, kind="recorded")
    save_trace(run, OUT)
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes, {len(run.steps)} steps")
    print("".join(t.text for t in run.tokens))


if __name__ == "__main__":
    main()
