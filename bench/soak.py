"""Hours of use in minutes: 2,000 steps and 200 page loads with resets on one server, whose memory has to stay flat."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from bench import report
from bench.hosted import Hosted, hosted_app
from bench.passage import passage
from bench.report import Figure
from bench.visitor import Visitor
from miniinfer.errors import MiniInferError
from miniinfer.models.text import load_tokenizer

MOST_GROWTH = 1.05
PROMPT_TOKENS = 64


@dataclass(frozen=True)
class Size:
    loads: int = 200
    steps: int = 10  # of each load, in two runs: the second is the reset
    warm_up: float = 0.3  # of the loads; Streamlit keeps the state of a closed tab for two minutes


QUICK = Size(loads=10, steps=4)


def measure(size: Size) -> list[Figure]:
    tokenizer, _ = load_tokenizer()
    prompt = tokenizer.decode(passage(tokenizer, PROMPT_TOKENS))
    with hosted_app() as app:
        begin = time.monotonic()
        memory, left = asyncio.run(_soak(app, prompt, size))
        seconds = time.monotonic() - begin
        broken = app.warnings()
    if broken:
        raise MiniInferError(f"The app's log has: {broken[0]}")
    after = memory[int(size.warm_up * len(memory)) :]
    part = max(1, len(after) // 5)
    early, late = statistics.median(after[:part]), statistics.median(after[-part:])
    return [
        Figure(
            "memory at the end : after warm-up", late / early, "x", MOST_GROWTH,
            note=f"{size.loads} loads, {size.loads * size.steps} steps in {seconds:,.0f} s; medians of {part} loads",
        ),
        Figure("memory after warm-up", early, "bytes"),
        Figure("memory at the end", late, "bytes", note=f"most {max(memory):,}"),
        Figure("sessions that were closed and are still there", left, "sessions", 0.0),
    ]


async def _soak(app: Hosted, prompt: str, size: Size) -> tuple[list[int], int]:
    """Resident bytes of the server after each load, and how many sessions were open at the end."""
    cookie, memory = app.cookie(), []
    for load in range(size.loads):
        visitor = Visitor(f"load {load}")
        await visitor.enter(app.address, cookie)
        while not visitor.is_live:  # the first one loads the model
            await asyncio.sleep(0.3)
            await visitor.rerun()
        for half in range(2):
            await visitor.new_run(prompt, 2 * load + half, size.steps)
            for step in range(1, size.steps // 2 + 1):
                await visitor.step(step)
        await visitor.leave()
        if visitor.errors:
            raise MiniInferError(f"{visitor.name}: {visitor.errors[0]}")
        memory.append((await asyncio.to_thread(app.health))["memory"]["process_bytes"])
    for _ in range(50):
        open_sessions = (await asyncio.to_thread(app.health))["sessions"]["open"]
        if not open_sessions:
            break
        await asyncio.sleep(0.2)
    return memory, open_sessions


if __name__ == "__main__":
    report.main("soak", __doc__ or "", measure, full=Size(), quick=QUICK)
