"""What the interface adds to a decode step, from key or click to the painted frame, and how soon the app is there."""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench import report
from bench.floor import empty_fragment_ms
from bench.passage import passage
from bench.report import Figure
from bench.start import one_start, own_home, start_figures
from miniinfer.cli.browser import find_chromium
from miniinfer.errors import MiniInferError
from miniinfer.models.text import load_tokenizer
from tests.browser.conftest import ARGUMENTS, READY, home_with_models, running_app

PROBE = Path(__file__).with_name("probe.js")
MOST_MS = {64: 60.0, 250: 80.0}  # at these many tokens of context
WARM_UP = 3  # steps of each run whose times are thrown away
KINDS = ("click", "key")


@dataclass(frozen=True)
class Size:
    contexts: tuple[int, ...] = (64, 250)
    events: int = 24  # of each kind, at each context
    starts: int = 5  # of the app, after a first one that makes the copy of the converted weights


QUICK = Size(events=6, starts=3)


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
        with _prints_to_stderr(), TemporaryDirectory() as home, running_app(home_with_models(Path(home))) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(path=PROBE)
            page.goto(address)
            page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
            for context in size.contexts:
                steps = 2 * size.events + WARM_UP
                ids = passage(tokenizer, max(1, context - steps // 2 - 2))
                new_run(page, tokenizer.decode(ids), steps + 8)
                found = events_figures(context, step_events(page, size.events))
                click = next(f for f in found if f.name.startswith("click"))
                ratio = click.value / statistics.median(floor)
                figures += [*found, Figure(f"{context} tokens: click : empty fragment", ratio, "x")]
    return figures


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


def new_run(page: Page, text: str, new_tokens: int) -> None:
    """Start a run of this raw prompt in the side panel, and prefill it."""
    page.get_by_label("New tokens", exact=True).fill(str(new_tokens))
    page.get_by_label("Prompt", exact=True).fill(text)
    page.get_by_role("button", name="New run").click()
    _expect(page, 0)
    page.keyboard.press("ArrowRight")
    _expect(page, 1)


def _expect(page: Page, step: int) -> None:
    page.get_by_test_id("transport-step").get_by_text(f"step {step} ").wait_for(timeout=READY)


def step_events(page: Page, events: int) -> list[dict[str, Any]]:
    """`events` real keys and as many real clicks in random order, each a new decode step; what probe.js saw of them."""
    chance = random.Random(0)
    kinds = [*KINDS] * events
    chance.shuffle(kinds)
    button = page.get_by_test_id("transport-forward")
    seen = []
    for kind in [*["key"] * WARM_UP, *kinds]:
        # Long enough for what trails a step (it is told late where the cursor stands), and in no beat with the frames.
        page.wait_for_timeout(300 + 100 * chance.random())
        page.evaluate("__bench.arm()")
        if kind == "key":
            page.keyboard.press("ArrowRight")
        else:
            button.click()
        found = page.evaluate(
            "() => Promise.race([__bench.done, new Promise(done => setTimeout(() => done(null), 30000))])"
        )
        if found is None:
            raise MiniInferError("A step was not painted within 30 s; has the run ended early? Start the bench again.")
        if not (found["shown"] and found["step"] == found["from"] + 1 and found["start"] < found["sent"]):
            raise MiniInferError(f"A {kind} did not do what the bench takes it to do: {found}.")
        seen.append(found | {"kind": kind})
    return seen[WARM_UP:]


def events_figures(context: int, seen: list[dict[str, Any]]) -> list[Figure]:
    """Medians of the events. The model's time is what each step reports; the rest of it is the interface's part."""
    figures = []
    for kind in KINDS:
        mine = [e for e in seen if e["kind"] == kind]
        name = f"{kind} to painted, {context} tokens"
        contexts, model_ms = [e["context"] for e in mine], statistics.median(e["ms"] for e in mine)
        how = f"{len(mine)} events at {min(contexts)} to {max(contexts)} tokens; without {model_ms:.1f} ms of the model"
        interface = [e["painted"] - e["start"] - e["ms"] for e in mine]
        figures.append(_figure(name, interface, MOST_MS.get(context), how))
    parts = {
        "event to ask sent": [e["sent"] - e["start"] for e in seen],
        "server and wire, without the model": [e["received"] - e["sent"] - e["ms"] for e in seen],
        "answer to painted": [e["painted"] - e["received"] for e in seen],
    }
    figures += [_figure(f"{context} tokens: {part}", values) for part, values in parts.items()]
    largest = statistics.median(e["bytes"] for e in seen)
    return [*figures, Figure(f"{context} tokens: answer on the wire", largest, "bytes")]


def _figure(name: str, values: list[float], most: float | None = None, note: str = "") -> Figure:
    ranked = sorted(values)
    return Figure(name, statistics.median(ranked), "ms", most, p90=ranked[int(0.9 * len(ranked))], note=note)


if __name__ == "__main__":
    report.main("interface", __doc__ or "", measure, full=Size(), quick=QUICK)
