"""A step in the app, from key or click to the painted frame: all of it, and what the interface adds to the model's
time; how it grows from a short run to a long one, all panels open; and how soon the app is there.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench import report
from bench.floor import empty_fragment_ms
from bench.passage import ENDLESS, passage
from bench.report import Figure
from bench.start import one_start, own_home, start_figures
from miniinfer.cli.browser import find_chromium
from miniinfer.errors import MiniInferError
from miniinfer.hosting import VARIABLE, Hosting
from miniinfer.measure.timing import timing_of
from miniinfer.models.text import load_tokenizer
from miniinfer.models.tokenizer import Tokenizer
from tests.browser.conftest import ARGUMENTS, READY, home_with_models, running_app, wait_for

PROBE = Path(__file__).with_name("probe.js")
MOST_MS = {64: 60.0, 250: 80.0}  # without the model, at these many tokens of context
MOST_WHOLE_MS = {("float32", 250): 100.0, ("packed", 250): 80.0}  # the model included; packed is the fastest mode
MOST_GROWTH = 1.6
WARM_UP = 3  # steps of each run whose times are thrown away
LONG_PROMPT = 200  # tokens of the prompt of a run that becomes long by decoding
STEADY_TOP_P = 0.5  # with it nothing unlikely ends that run
KINDS = ("click", "key")
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
    contexts: tuple[int, ...] = (64, 250)
    events: int = 24  # of each kind, at each context
    growth: tuple[int, int] | None = (50, 2000)  # contexts of a short run and of a long one, stepped by turns
    starts: int = 5  # of the app, after a first one that makes the copy of the converted weights


QUICK = Size(events=6, growth=None, starts=3)


def measure(size: Size) -> list[Figure]:
    """All figures of this bench. The model's file is fetched before, if it is missing."""
    tokenizer, _ = load_tokenizer()
    figures: list[Figure] = []
    with _chromium() as browser:
        with _prints_to_stderr():
            floor = empty_fragment_ms(browser, size.events)
        figures.append(_figure("click to painted, a fragment of Streamlit that does nothing", floor))
        with _prints_to_stderr(), TemporaryDirectory() as folder:
            own = own_home(Path(folder))
            first, later = one_start(browser, own), [one_start(browser, own) for _ in range(size.starts)]
        figures += start_figures(first, later)
        for mode in size.modes:
            figures += _mode(browser, mode, size, tokenizer, statistics.median(floor))
    return figures


def _mode(browser: Browser, mode: str, size: Size, tokenizer: Tokenizer, floor: float) -> list[Figure]:
    """In one precision, on a server of its own."""
    figures: list[Figure] = []
    with _prints_to_stderr(), TemporaryDirectory() as home:
        environment = home_with_models(Path(home)) | {VARIABLE: Hosting(dtype=mode).to_json()}
        with running_app(environment) as address:
            page = _live_tab(browser, address)
            for context in size.contexts:
                steps = 2 * size.events + WARM_UP
                ids = passage(tokenizer, max(1, context - steps // 2 - 2))
                new_run(page, tokenizer.decode(ids), steps + 8)
                found = events_figures(context, step_events(page, size.events), mode)
                click = next(f for f in found if f.name.startswith("click"))
                figures += [*found, Figure(f"{context} tokens: click : empty fragment", click.value / floor, "x")]
            if size.growth is not None:
                figures += growth(browser, address, tokenizer, size.growth, size.events, mode)
    return [replace(figure, name=f"{mode}: {figure.name}") for figure in figures]


def _live_tab(browser: Browser, address: str) -> Page:
    """A tab of its own session, on the workspace, with the model loaded."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(path=PROBE)
    page.goto(address)
    page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
    return page


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _prints_to_stderr() -> Iterator[None]:
    """What a program started in here prints goes to standard error: the figures alone belong on standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def new_run(page: Page, text: str, new_tokens: int, top_p: float | None = None) -> None:
    """Start a run of this raw prompt in the side panel, and prefill it."""
    if top_p is not None:
        page.get_by_label("Top-p", exact=True).fill(str(top_p))
    page.get_by_label("New tokens", exact=True).fill(str(new_tokens))
    page.get_by_label("Prompt", exact=True).fill(text)
    page.get_by_role("button", name="New run").click()
    _expect(page, 0)
    page.keyboard.press("ArrowRight")
    _expect(page, 1)


def _expect(page: Page, step: int) -> None:
    page.get_by_test_id("transport-step").get_by_text(f"step {step:,} ").wait_for(timeout=READY)


def step_events(page: Page, events: int) -> list[dict[str, Any]]:
    """`events` real keys and as many real clicks in random order, each a new decode step; what probe.js saw of them."""
    chance = random.Random(0)
    kinds = [*KINDS] * events
    chance.shuffle(kinds)
    return [step_event(page, kind, chance) for kind in [*["key"] * WARM_UP, *kinds]][WARM_UP:]


def step_event(page: Page, kind: str, chance: random.Random) -> dict[str, Any]:
    """One real key or click, and what probe.js saw of it."""
    # Long enough for what trails a step (it is told late where the cursor stands), and in no beat with the frames.
    page.wait_for_timeout(300 + 100 * chance.random())
    page.evaluate("__bench.arm()")
    if kind == "key":
        page.keyboard.press("ArrowRight")
    else:
        page.get_by_test_id("transport-forward").click()
    found = page.evaluate(
        "() => Promise.race([__bench.done, new Promise(done => setTimeout(() => done(null), 30000))])"
    )
    if found is None:
        raise MiniInferError("A step was not painted within 30 s; has the run ended early? Start the bench again.")
    if not (found["shown"] and found["step"] == found["from"] + 1 and found["start"] < found["sent"]):
        raise MiniInferError(f"A {kind} did not do what the bench takes it to do: {found}.")
    return found | {"kind": kind}


def events_figures(context: int, seen: list[dict[str, Any]], mode: str = "") -> list[Figure]:
    """Medians of the events. The model's time is what each step reports; the rest of it is the interface's part."""
    figures = []
    for kind in KINDS:
        mine = [e for e in seen if e["kind"] == kind]
        name = f"{kind} to painted, {context} tokens"
        contexts, model_ms = [e["context"] for e in mine], statistics.median(e["ms"] for e in mine)
        how = f"{len(mine)} events at {min(contexts)} to {max(contexts)} tokens; without {model_ms:.1f} ms of the model"
        figures.append(_figure(name, [_whole(e) - e["ms"] for e in mine], MOST_MS.get(context), how))
        if kind == "click":
            whole = [_whole(e) for e in mine]
            figures.append(_figure(f"{name}, whole step", whole, MOST_WHOLE_MS.get((mode, context)), "with the model"))
    return figures + parts_figures(context, seen)


def parts_figures(context: int, seen: list[dict[str, Any]]) -> list[Figure]:
    parts = {
        "the model": [e["ms"] for e in seen],
        "event to ask sent": [e["sent"] - e["start"] for e in seen],
        "server and wire, without the model": [e["received"] - e["sent"] - e["ms"] for e in seen],
        "answer to painted": [e["painted"] - e["received"] for e in seen],
    }
    figures = [_figure(f"{context} tokens: {part}", values) for part, values in parts.items()]
    largest = statistics.median(e["bytes"] for e in seen)
    return [*figures, Figure(f"{context} tokens: answer on the wire", largest, "bytes")]


def _whole(event: dict[str, Any]) -> float:
    return float(event["painted"] - event["start"])


def growth(
    browser: Browser, address: str, tokenizer: Tokenizer, contexts: tuple[int, int], events: int, mode: str
) -> list[Figure]:
    """Whole steps of two tabs by turns, keys and clicks as they come: of a short run, and of one that has become long
    by decoding. Everything is recorded and all panels of the workspace are open in both; once the map of all heads
    shows newest rows, as it does at first, and once patterns."""
    steps = 2 * (events + WARM_UP)
    tabs = []
    for context in contexts:
        start = max(1, context - steps // 2)
        ids = passage(tokenizer, min(LONG_PROMPT, start), ENDLESS)
        page = _live_tab(browser, address)
        new_run(page, tokenizer.decode(ids), start - len(ids) + steps + 8, STEADY_TOP_P)
        _reach(page, 1 + start - len(ids))
        tabs.append(page)
    figures = []
    for heads in ("rows", "patterns"):
        seen = _by_turns(tabs, heads, events)
        name = f"{contexts[1]} tokens : {contexts[0]}, all panels open, heads as {heads}"
        for context, events_seen in zip(contexts, seen, strict=True):
            whole = [_whole(e) for e in events_seen]
            figures.append(_figure(f"{context} tokens, by turns, heads as {heads}: whole step", whole))
            if heads == "rows":
                figures += [replace(f, name=f"by turns, {f.name}") for f in parts_figures(context, events_seen)]
        short, long = ([_whole(e) for e in events_seen] for events_seen in seen)
        how = f"paired by round, {len(short)} rounds"
        figures.append(Figure(f"a whole step, {name}", timing_of(long, short).ratio, "x", MOST_GROWTH, note=how))
    for page in tabs:
        page.close()
    return figures


def _by_turns(tabs: list[Page], heads: str, events: int) -> list[list[dict[str, Any]]]:
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
    _expect(page, step)
    wait_for(page, PAINTED, [step], timeout=READY)


def _figure(name: str, values: list[float], most: float | None = None, note: str = "") -> Figure:
    ranked = sorted(values)
    return Figure(name, statistics.median(ranked), "ms", most, p90=ranked[int(0.9 * len(ranked))], note=note)


if __name__ == "__main__":
    report.main("interface", __doc__ or "", measure, full=Size(), quick=QUICK)
