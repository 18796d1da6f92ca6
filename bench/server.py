"""What the server does for one step of the app, from the ask to the run saved, beside a step of transformers.

A visitor without a browser asks as the workspace does: the step is computed and recorded, its panels' message is built
and sent, the run is saved. The same weights decode one token in transformers' own class, attentions given back, in the
same rounds in random order. What the server does when the answer has gone out (saving waits a moment) is counted by
its processor time, less what an idle server takes.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import peers, report, setting
from bench.passage import ENDLESS, passage
from bench.report import Figure
from bench.visitor import Visitor
from miniinfer.errors import MiniInferError
from miniinfer.hosting import VARIABLE, Hosting
from miniinfer.measure.timing import timing_of
from miniinfer.models.loader import LoadedModel
from miniinfer.models.tokenizer import Tokenizer
from tests.browser.conftest import app_process, free_port, home_with_models

MOST_OF_PEER = 0.6  # of transformers with attentions, both float32
SAVED_AFTER = 0.6  # s from an answer until the run is saved, with room to spare (store/writer.py: 0.3)
IDLE = 2.0  # s for which an idle server is watched
LONG_PROMPT = 200  # tokens of the prompt of a run that becomes long by decoding
STEADY_TOP_P = 0.5  # with it nothing unlikely ends that run


@dataclass(frozen=True)
class Size:
    modes: tuple[str, ...] = ("float32", "packed")
    contexts: tuple[int, ...] = (64, 250)
    growth: tuple[int, int] | None = (50, 2000)  # the same steps of a short run and of a long one, in turn
    rounds: int = 24


QUICK = Size(modes=("float32",), growth=None, rounds=8)


@dataclass(frozen=True)
class Work:
    """One step: seconds from the ask to the last byte of the answer, processor seconds until then and afterwards, and
    what the step itself reports of the engine."""

    answered: float
    processor: float
    afterwards: float
    engine: float

    @property
    def whole(self) -> float:
        return self.answered + self.afterwards


class Served:
    """A running app and what its process has computed so far."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self._clock = ~pid << 3 | 2  # Linux: the processor time of all threads of a process, those that ended too
        self._idle = 0.0

    def processor(self) -> float:
        return time.clock_gettime(self._clock)

    async def watch_idle(self) -> None:
        before, began = self.processor(), time.perf_counter()
        await asyncio.sleep(IDLE)
        self._idle = (self.processor() - before) / (time.perf_counter() - began)

    async def step(self, visitor: Visitor) -> Work:
        """One further step of the visitor's run, until it is saved."""
        before, began = self.processor(), time.perf_counter()
        await visitor.step(visitor.header["last"] + 1)
        answered, then = time.perf_counter() - began, self.processor()
        await asyncio.sleep(SAVED_AFTER)
        afterwards = self.processor() - then - self._idle * (time.perf_counter() - began - answered)
        check(visitor)
        engine = visitor.header["meta"][-1]["ms"] / 1000
        return Work(answered, then - before, max(0.0, afterwards), engine)


@asynccontextmanager
async def served(mode: str) -> AsyncIterator[Served]:
    """The app with its model loaded, in this precision, with a home of its own."""
    with TemporaryDirectory() as home:
        environment = home_with_models(Path(home)) | {VARIABLE: Hosting(dtype=mode).to_json()}
        with app_process(free_port(), environment) as (address, process):
            app = Served(address, process.pid)
            visitor = await enter(app)
            await app.watch_idle()
            await visitor.leave()
            yield app


async def enter(app: Served) -> Visitor:
    """A visitor on the workspace of a live run."""
    visitor = Visitor("visitor")
    await visitor.enter(app.address)
    while not visitor.is_live:
        await asyncio.sleep(0.1)
        await visitor.rerun()
    return visitor


async def started(
    app: Served, ids: list[int], tokenizer: Tokenizer, new_tokens: int, positions: int, top_p: float | None = None
) -> Visitor:
    """A visitor whose run of this prompt has so many positions in the cache."""
    visitor = await enter(app)
    await visitor.new_run(tokenizer.decode(ids), 0, new_tokens, top_p)
    want = 1 + positions - len(ids)
    while visitor.header["last"] < want:  # an answer brings what was made within a moment
        before = visitor.header["last"]
        await visitor.step(want)
        visitor.errors.clear()
        if visitor.header["last"] == before:
            raise MiniInferError(f"The run ended at step {before}: {visitor.header['error'] or 'its text was over'}.")
    return visitor


def check(visitor: Visitor) -> None:
    if visitor.errors:
        raise MiniInferError(f"The app said: {visitor.errors[0]}")


def measure(size: Size, model: LoadedModel | None = None) -> list[Figure]:
    """All figures of this bench. model: what transformers gets its weights from; loaded if left out."""
    return asyncio.run(_measure(size, model or setting.load()))


async def _measure(size: Size, model: LoadedModel) -> list[Figure]:
    from bench.batching import transformers_twin

    peer = peers.Transformers(model, transformers_twin(model), attentions=True)
    figures: list[Figure] = []
    for mode in size.modes:
        async with served(mode) as app:
            for context in size.contexts:
                figures += await beside(app, mode, model, peer, context, size.rounds)
            if size.growth is not None:
                figures += await growth(app, mode, model.tokenizer, size.growth, size.rounds)
    return figures


async def beside(
    app: Served, mode: str, model: LoadedModel, peer: peers.Transformers, context: int, rounds: int
) -> list[Figure]:
    """The server's step and transformers' by turns, at `context` positions in the middle round."""
    start = setting.middle(context, rounds)
    ids = passage(model.tokenizer, start)
    visitor = await started(app, ids, model.tokenizer, rounds + setting.WARM_UP + 8, start)
    peer.prompt(start)
    chance = random.Random(0)
    works, theirs = [], []
    for _ in range(setting.WARM_UP + rounds):
        first = chance.random() < 0.5
        if first:
            theirs.append(_timed(peer))
        works.append(await app.step(visitor))
        if not first:
            theirs.append(_timed(peer))
    await visitor.leave()
    works, theirs = works[setting.WARM_UP :], theirs[setting.WARM_UP :]
    name = f"{mode}, T = {context}: a step on the server"
    wall, processor = [t for t, _ in theirs], [p for _, p in theirs]
    bar = MOST_OF_PEER if mode == "float32" else None
    by_clock = timing_of([w.whole for w in works], wall).ratio
    by_processor = timing_of([w.processor + w.afterwards for w in works], processor).ratio
    return [
        *work_figures(name, works),
        _ms(f"{mode}, T = {context}: a step of transformers with attentions", wall, "float32"),
        Figure(f"{name} : of transformers with attentions", by_clock, "x", bar, note="paired by round"),
        Figure(f"{name} : the same, processor time of both", by_processor, "x", note="paired by round"),
    ]


async def growth(
    app: Served, mode: str, tokenizer: Tokenizer, contexts: tuple[int, int], rounds: int
) -> list[Figure]:
    """Steps of a short run and of one that has become long by decoding, by turns."""
    starts = [setting.middle(context, rounds) for context in contexts]
    visitors = []
    for start in starts:
        ids = passage(tokenizer, min(LONG_PROMPT, start), ENDLESS)
        new_tokens = start - len(ids) + rounds + setting.WARM_UP + 8
        visitors.append(await started(app, ids, tokenizer, new_tokens, start, STEADY_TOP_P))
    chance = random.Random(0)
    works: list[list[Work]] = [[], []]
    for _ in range(setting.WARM_UP + rounds):
        for which in chance.sample((0, 1), 2):
            works[which].append(await app.step(visitors[which]))
    for visitor in visitors:
        await visitor.leave()
    short, long = (each[setting.WARM_UP :] for each in works)
    name = f"{mode}: a step on the server, {contexts[1]:,} tokens : {contexts[0]}"
    by_processor = timing_of([w.processor + w.afterwards for w in long], [w.processor + w.afterwards for w in short])
    return [
        *work_figures(f"{mode}, {contexts[0]} tokens: a step on the server", short),
        *work_figures(f"{mode}, {contexts[1]:,} tokens: a step on the server", long),
        Figure(name, timing_of([w.whole for w in long], [w.whole for w in short]).ratio, "x", note="paired by round"),
        Figure(f"{name}, processor time", by_processor.ratio, "x", note="paired by round"),
    ]


def work_figures(name: str, works: list[Work]) -> list[Figure]:
    engine = 1000 * statistics.median(w.engine for w in works)
    afterwards = 1000 * statistics.median(w.afterwards for w in works)
    how = f"of it the engine {engine:.1f} ms, after the answer {afterwards:.1f} ms of processor time"
    return [
        _ms(name, [w.whole for w in works], how),
        _ms(f"{name}, processor time", [w.processor + w.afterwards for w in works]),
    ]


def _timed(peer: peers.Transformers) -> tuple[float, float]:
    """Seconds and processor seconds of one step."""
    began, before = time.perf_counter(), time.process_time()
    peer.step()
    return time.perf_counter() - began, time.process_time() - before


def _ms(name: str, seconds: list[float], note: str = "") -> Figure:
    ranked = sorted(1000 * s for s in seconds)
    return Figure(name, statistics.median(ranked), "ms", p90=ranked[int(0.9 * len(ranked))], note=note)


if __name__ == "__main__":
    report.main("server", __doc__ or "", measure, full=Size(), quick=QUICK)
