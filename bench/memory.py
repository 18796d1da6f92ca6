"""Memory of a server with one user and 500 tokens, and how long it takes to start: from the command to the first page,
and to a model that is ready. For each precision one server, as a class is served; its own /health says the bytes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench import report
from bench.hosted import Hosted, hosted_app
from bench.passage import passage
from bench.report import Figure
from bench.visitor import Visitor
from miniinfer.errors import MiniInferError
from miniinfer.models.text import load_tokenizer

MOST_BYTES = {"float32": 1.5e9, "packed": 1.0e9}
MOST_SECONDS = {"page": 3.0, "model": 5.0}
PROMPT_SHARE = 0.9  # of the tokens: a text of the real model may end by itself


@dataclass(frozen=True)
class Size:
    tokens: int = 500
    dtypes: tuple[str, ...] = ("float32", "packed")


QUICK = Size(tokens=80, dtypes=("packed",))


def measure(size: Size) -> list[Figure]:
    tokenizer, _ = load_tokenizer()
    prompt_tokens = round(PROMPT_SHARE * size.tokens)
    prompt, steps = tokenizer.decode(passage(tokenizer, prompt_tokens)), size.tokens - prompt_tokens + 1
    figures: list[Figure] = []
    for dtype in size.dtypes:
        began = time.monotonic()
        with hosted_app(dtype) as app:
            figures += asyncio.run(_one_user(app, dtype, prompt, steps, began))
            broken = app.warnings()
        if broken:
            raise MiniInferError(f"The app's log has: {broken[0]}")
    return figures


async def _one_user(app: Hosted, dtype: str, prompt: str, steps: int, began: float) -> list[Figure]:
    visitor = Visitor("one user")
    await visitor.enter(app.address, app.cookie())
    page = time.monotonic() - began
    while not visitor.is_live:
        await asyncio.sleep(0.1)
        await visitor.rerun()
    ready, loaded = time.monotonic() - began, app.health()["memory"]["process_bytes"]
    await visitor.new_run(prompt, 0, steps)
    while visitor.header["last"] < steps:  # an answer brings what was made within a moment; the browser asks again too
        before = visitor.header["last"]
        await visitor.step(steps)
        if visitor.header["last"] == before:
            break
        visitor.errors.clear()
    if visitor.errors:
        raise MiniInferError(f"{visitor.name}: {visitor.errors[0]}")
    positions = len(visitor.tokens)
    memory = (await asyncio.to_thread(app.health))["memory"]["process_bytes"]
    await visitor.leave()
    return [
        Figure(f"{dtype}: from the command to the first page", page, "s", MOST_SECONDS["page"]),
        Figure(f"{dtype}: from the command to a model that is ready", ready, "s", MOST_SECONDS["model"]),
        Figure(f"{dtype}: memory of the server, one user, {positions} tokens", memory, "bytes", MOST_BYTES[dtype],
               note=f"with the model alone {loaded:,}"),
    ]  # fmt: skip


if __name__ == "__main__":
    report.main("memory", __doc__ or "", measure, full=Size(), quick=QUICK)
