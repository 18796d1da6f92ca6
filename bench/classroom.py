"""A class at once: thirty websocket clients and a browser on one server, each taking a step every two seconds."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from playwright.sync_api import sync_playwright

from bench import report
from bench.hosted import PHRASE, Hosted, hosted_app
from bench.interface import PROBE, new_run
from bench.passage import passage
from bench.report import Figure
from bench.visitor import Visitor
from miniinfer import hosting
from miniinfer.cli.browser import find_chromium
from miniinfer.config import EngineConfig, SamplingParams
from miniinfer.engine.engine import Engine
from miniinfer.errors import MiniInferError
from miniinfer.models.loader import LoadedModel, load_model
from miniinfer.models.text import load_tokenizer
from miniinfer.native.choose import NATIVE, choose_backend
from tests.browser.conftest import ARGUMENTS, READY

MOST_SECONDS = 1.0  # the 95th percentile, asked to answered
MOST_BYTES = 2.5e9
# What the side panel starts with; seed and number of tokens are each client's own.
PARAMS = SamplingParams(temperature=0.8, top_p=0.95)
# A prompt is prefilled in the same chunks as in the class.
CONFIG = EngineConfig(max_num_batched_tokens=hosting.guarded("").max_step_tokens or 0)


@dataclass(frozen=True)
class Size:
    clients: int = 30
    steps: int = 45  # of each
    context: int = 256  # tokens of each at the end
    every: float = 2.0  # s between two steps of one client
    stagger: float = 3.0  # s between two arrivals: a prompt's prefill takes everybody's time
    dtypes: tuple[str, ...] = ("packed", "float32")  # one class after the other


QUICK = Size(clients=3, steps=4, context=32, every=0.5, stagger=0.2, dtypes=("packed",))


@dataclass
class Seen:
    """What one client saw: seconds from ask to answer of every decode step, of its prefill, and its tokens."""

    name: str
    prompt: str
    seed: int
    steps: list[float] = field(default_factory=list)
    prefill: float = 0.0
    late: float = 0.0  # s that its last step began after its time
    tokens: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """model: what to run everybody's prompt alone on (of the one precision); loaded at the end, if left out."""
    return [
        replace(figure, name=f"{dtype}: {figure.name}") for dtype in size.dtypes for figure in _one(size, dtype, model)
    ]


def _one(size: Size, dtype: str, model: LoadedModel | None) -> list[Figure]:
    """A class in this precision."""
    tokenizer, _ = load_tokenizer()
    prompt_ids = passage(tokenizer, max(1, size.context - size.steps))
    clients = [Seen(f"client {n}", f"{n}." + tokenizer.decode(prompt_ids), 1000 + n) for n in range(size.clients)]
    with hosted_app(dtype) as app:
        figures = asyncio.run(_class(app, clients, size))
        broken = app.warnings()
    mixed = _mixed_up(clients, size, model or _as_the_app(dtype))
    for each in clients:
        if each.errors:
            raise MiniInferError(f"{each.name}: {each.errors[0]}")
    if broken:
        raise MiniInferError(f"The app's log has: {broken[0]}")
    if mixed:
        raise MiniInferError(f"{mixed[0]} got other tokens than it gets alone.")
    done = sum(len(each.steps) for each in clients)
    return [*figures, Figure("clients whose tokens are those of a run alone", len(clients), "x", note=f"{done} steps")]


async def _class(app: Hosted, clients: Sequence[Seen], size: Size) -> list[Figure]:
    cookie = app.cookie()
    first = Visitor("the first")
    await first.enter(app.address, cookie)
    while not first.is_live:  # it loads the model; a class finds it there
        await asyncio.sleep(0.5)
        await first.rerun()
    loaded = app.health()["memory"]["process_bytes"]
    await first.leave()
    memory: list[int] = []
    watching = asyncio.create_task(_watch(app, memory))
    with ThreadPoolExecutor(1) as thread:
        browser = asyncio.get_running_loop().run_in_executor(thread, _browser, app.address, size)
        visits = [_visit(app.address, cookie, each, n * size.stagger, size) for n, each in enumerate(clients)]
        await asyncio.gather(*visits)
        painted: list[dict[str, Any]] = await browser
    watching.cancel()
    after = app.health()
    steps = sorted(took for each in clients for took in each.steps)
    rate = len(clients) / size.every
    waits = [e["painted"] - e["start"] for e in painted]
    notes = sum("lent to others" in said for each in clients for said in each.said)
    return [
        Figure(
            "ask to answer, 95th percentile", steps[int(0.95 * len(steps))], "s", MOST_SECONDS,
            note=f"{len(clients)} clients, {rate:.1f} steps a second asked for; median "
            f"{statistics.median(steps):.2f} s, longest {steps[-1]:.2f} s",
        ),
        Figure("last step began late by at most", max(each.late for each in clients), "s"),
        Figure("prefill, median", statistics.median(each.prefill for each in clients), "s"),
        Figure("browser: key to painted", statistics.median(waits), "ms", p90=sorted(waits)[int(0.9 * len(waits))]),
        Figure("memory of the server, most", max(memory), "bytes", MOST_BYTES, note=f"with the model alone {loaded:,}"),
        Figure(
            "caches and records of all at the end", after["memory"]["sessions_bytes"], "bytes",
            note=f"{after['sessions']['open']} sessions; {after['memory']['evictions']} gave way, {notes} were told",
        ),
    ]  # fmt: skip


async def _watch(app: Hosted, memory: list[int]) -> None:
    while True:
        memory.append((await asyncio.to_thread(app.health))["memory"]["process_bytes"])
        await asyncio.sleep(1)


async def _visit(address: str, cookie: str, seen: Seen, wait: float, size: Size) -> None:
    await asyncio.sleep(wait)
    visitor = Visitor(seen.name)
    try:
        await visitor.enter(address, cookie)
        await visitor.new_run(seen.prompt, seen.seed, size.steps + 8)
        seen.prefill = await visitor.step(1)
        begin = time.monotonic()
        for number in range(size.steps):
            due = begin + (number + 1) * size.every
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if visitor.header["run"]["finished"]:
                break  # the model itself ended the text
            seen.late = time.monotonic() - due
            seen.steps.append(await visitor.step(number + 2))
        # Everybody stays until the last has come as far: what is measured is all of them there at once.
        await asyncio.sleep(max(0.0, size.clients * size.stagger - wait))
    except TimeoutError:
        seen.errors.append("no answer")
    finally:
        seen.tokens, seen.said = visitor.tokens, visitor.said
        seen.errors += visitor.errors
        await visitor.leave()


def _browser(address: str, size: Size) -> list[dict[str, Any]]:
    """The one real browser among them: it enters by the pass phrase and presses a key every `every` seconds."""
    seen = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(path=PROBE)
        page.goto(address)
        page.get_by_label("Pass phrase").fill(PHRASE)
        page.get_by_role("button", name="Enter").click()
        page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
        new_run(page, "Once upon a time there was a", size.steps + size.clients + 8)
        for _ in range(size.steps):
            page.wait_for_timeout(1000 * size.every)
            page.evaluate("__bench.arm()")
            page.keyboard.press("ArrowRight")
            seen.append(page.evaluate("() => __bench.done"))
        browser.close()
        if errors:
            raise MiniInferError(f"The browser's page: {errors[0]}")
    return seen


def _as_the_app(dtype: str) -> LoadedModel:
    """With the compiled core, if it is there: its last digits differ from torch's, and a sampled text may with them."""
    NATIVE.look()
    return load_model(device="cpu", dtype=dtype, choose_backend=partial(choose_backend, "auto"))


def _mixed_up(clients: Sequence[Seen], size: Size, model: LoadedModel) -> list[str]:
    """Names of those who did not get what a run alone gets: same prompt, same seed, an engine for each."""
    found = []
    for each in clients:
        engine = Engine(model, CONFIG)
        params = replace(PARAMS, seed=each.seed, max_new_tokens=size.steps + 8)
        seq = engine.add_request(model.tokenizer.encode_prompt(each.prompt), params)
        while seq.num_tokens < len(each.tokens) and engine.step() is not None:
            pass
        if seq.token_ids != each.tokens or len(each.tokens) < len(seq.prompt_ids):
            found.append(each.name)
    return found


if __name__ == "__main__":
    report.main("classroom", __doc__ or "", measure, full=Size(), quick=QUICK)
