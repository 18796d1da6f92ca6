"""A step of a long run against one of a short run, from key or click to the painted frame: everything recorded, all
panels of the workspace open.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page

from bench import report
from bench.interface import (
    KINDS,
    WARM_UP,
    _chromium,
    _prints_to_stderr,
    expect_step,
    live_tab,
    ms_figure,
    new_run,
    parts_figures,
    step_event,
    whole_ms,
)
from bench.passage import ENDLESS, passage
from bench.report import Figure
from miniinfer.errors import MiniInferError
from miniinfer.hosting import VARIABLE, Hosting
from miniinfer.measure.timing import timing_of
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer
from tests.browser.conftest import READY, home_with_models, running_app, wait_for

MOST_GROWTH = 1.6
LONG_PROMPT = 200  # tokens of the prompt of a run that becomes long by decoding
STEADY_TOP_P = 0.5  # with it nothing unlikely ends that run
# Ask for steps up to `want` and for nothing to look at, again and again, as a page without panels would.
REACH = """async (want) => {
  const bus = window.__miniinfer;
  for (let tries = 0; bus.history.last < want && tries < 100; tries++) {
    const { last } = bus.history;
    bus.driver.ask({ n: ++bus.asks.n, run: bus.run.run, want, cursor: bus.cursor, have: bus.history.have });
    for (let i = 0; i < 3000 && bus.history.last === last; i++) await new Promise((done) => setTimeout(done, 10));
    if (bus.history.last > last) tries = 0;
    if (bus.history.info.finished) break;
  }
  bus.goto(Math.min(want, bus.known));
  return bus.history.last;
}"""
PAINTED = """([step]) => {
  const { history, asks } = window.__miniinfer;
  return history.next.has(step) && history.rows.has(step) && !asks.waiting;
}"""


@dataclass(frozen=True)
class Size:
    modes: tuple[str, ...] = ("float32", "packed")
    contexts: tuple[int, int] = (50, 2000)
    events: int = 20  # of each run, for each picture of the heads


QUICK = Size(modes=("packed",), contexts=(50, 400), events=6)


def measure(size: Size) -> list[Figure]:
    """All figures of this bench. The model's file is fetched before, if it is missing."""
    tokenizer, _ = load_tokenizer()
    figures: list[Figure] = []
    with _chromium() as browser:
        for mode in size.modes:
            with _prints_to_stderr(), TemporaryDirectory() as home:
                environment = home_with_models(Path(home)) | {VARIABLE: Hosting(dtype=mode).to_json()}
                with running_app(environment) as address:
                    found = growth(browser, address, tokenizer, size.contexts, size.events)
            figures += [replace(figure, name=f"{mode}: {figure.name}") for figure in found]
    return figures


def growth(
    browser: Browser, address: str, tokenizer: Tokenizer, contexts: tuple[int, int], events: int
) -> list[Figure]:
    """Whole steps of two tabs by turns, keys and clicks as they come: of a short run, and of one that has become long
    by decoding. Everything is recorded and all panels of the workspace are open in both; once the map of all heads
    shows newest rows, as it does at first, and once patterns."""
    steps = 2 * (events + WARM_UP)
    tabs = []
    for context in contexts:
        start = max(1, context - steps // 2)
        ids = passage(tokenizer, min(LONG_PROMPT, start), ENDLESS)
        page = live_tab(browser, address)
        new_run(page, tokenizer.decode(ids), start - len(ids) + steps + 8, STEADY_TOP_P)
        _reach(page, 1 + start - len(ids))
        tabs.append(page)
    figures = []
    for heads in ("rows", "patterns"):
        seen = _by_turns(tabs, heads, events)
        name = f"{contexts[1]} tokens : {contexts[0]}, all panels open, heads as {heads}"
        for context, events_seen in zip(contexts, seen, strict=True):
            whole = [whole_ms(e) for e in events_seen]
            figures.append(ms_figure(f"{context} tokens, by turns, heads as {heads}: whole step", whole))
            if heads == "rows":
                figures += [replace(f, name=f"by turns, {f.name}") for f in parts_figures(context, events_seen)]
        short, long = ([whole_ms(e) for e in events_seen] for events_seen in seen)
        how = f"paired by round, {len(short)} rounds"
        figures.append(Figure(f"a whole step, {name}", timing_of(long, short).ratio, "x", MOST_GROWTH, note=how))
    for page in tabs:
        page.close()
    return figures


def _by_turns(tabs: Sequence[Page], heads: str, events: int) -> list[list[dict[str, Any]]]:
    """Of each tab what probe.js saw of its events, one of each tab a round."""
    for page in tabs:
        page.bring_to_front()
        page.evaluate("(heads) => window.__miniinfer.setPref('map', heads)", heads)
        wait_for(page, PAINTED, [page.evaluate("window.__miniinfer.cursor")], timeout=READY)
    chance = random.Random(0)
    seen: list[list[dict[str, Any]]] = [[] for _ in tabs]
    for number in range(WARM_UP + events):
        kind = chance.choice(KINDS)
        for which in chance.sample(range(len(tabs)), len(tabs)):
            tabs[which].bring_to_front()
            event = step_event(tabs[which], kind, chance)
            if number >= WARM_UP:
                seen[which].append(event)
    return seen


def _reach(page: Page, step: int) -> None:
    """Have the run decode up to this step, and look at it."""
    last = page.evaluate(REACH, step)
    if last < step:
        raise MiniInferError(f"The run ended at step {last}; start the bench again.")
    expect_step(page, step)
    wait_for(page, PAINTED, [step], timeout=READY)


if __name__ == "__main__":
    report.main("long_run", __doc__ or "", measure, full=Size(), quick=QUICK)
