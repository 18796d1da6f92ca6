"""The attention page at 500 tokens in a warm browser: opening it, and moving the cursor, view by view."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from playwright.sync_api import Page

from bench import report
from bench.interface import _chromium, _prints_to_stderr, new_run
from bench.passage import passage
from bench.report import Figure
from miniinfer.models.text import load_tokenizer
from tests.browser.conftest import READY, running_app

MOST_OPEN_MS, MOST_MOVE_MS = 1500.0, 200.0
VIEWS = {
    "Scores to weights": "attention_maps", "Value mix": "attention_mix", "RoPE": "attention_distance",
    "All heads": "attention_heads_map", "Knock out": "attention_shift",
}  # fmt: skip
STEPS = 4

# Resolves with the browser's own time from `start` to the frame after the last change, once it was quiet for 0.4 s.
QUIET = """(start) => new Promise(done => {
  let last = start;
  const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => last = performance.now()));
  const seen = new MutationObserver(painted);
  const all = {subtree: true, childList: true, characterData: true, attributes: true};
  seen.observe(document.querySelector('.st-key-page_body') ?? document.body, all);
  const look = setInterval(() => {
    if (last > start && performance.now() - last > 400) { clearInterval(look); seen.disconnect(); done(last - start); }
  }, 20);
})"""


@dataclass(frozen=True)
class Size:
    tokens: int = 500
    events: int = 10


QUICK = Size(tokens=120, events=3)


def measure(size: Size) -> list[Figure]:
    tokenizer, _ = load_tokenizer()
    figures: list[Figure] = []
    with _chromium() as browser, _prints_to_stderr(), running_app() as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address)
        page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
        new_run(page, tokenizer.decode(passage(tokenizer, size.tokens)), 32)
        for step in range(2, STEPS + 1):
            page.keyboard.press("ArrowRight")
            page.get_by_test_id("transport-step").get_by_text(f"step {step} ").wait_for(timeout=READY)
        _open(page)  # the browser loads its plotting code once
        for view, figure in VIEWS.items():
            _show(page, view, figure)
            opened = []
            for _ in range(max(2, size.events // 3)):
                _leave(page)
                opened.append(_open(page, figure))
            moved = [_move(page, number) for number in range(size.events)]
            figures.append(_figure(f"{view}: page chosen to painted", opened, MOST_OPEN_MS))
            figures.append(_figure(f"{view}: cursor moved to painted", moved, MOST_MOVE_MS))
    return figures


def _menu(page: Page, name: str) -> None:
    page.get_by_test_id("stPopover").first.locator("button").first.click()
    page.get_by_test_id("stPopoverBody").get_by_role("link", name=name, exact=True).wait_for()


def _leave(page: Page) -> None:
    _menu(page, "Model")
    page.get_by_test_id("stPopoverBody").get_by_role("link", name="Model", exact=True).click()
    page.get_by_text("What does the model file say?").wait_for(timeout=READY)
    page.wait_for_timeout(400)


def _open(page: Page, figure: str = "attention_maps") -> float:
    """From the click on the page's name to its figure painted and its body quiet, in ms."""
    _menu(page, "Attention")
    begin = time.perf_counter()
    page.get_by_test_id("stPopoverBody").get_by_role("link", name="Attention", exact=True).click()
    page.locator(f".st-key-{figure} .main-svg").first.wait_for(timeout=READY)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    taken = (time.perf_counter() - begin) * 1000
    page.wait_for_timeout(600)
    return taken


def _show(page: Page, view: str, figure: str) -> None:
    page.locator(".st-key-attention_view").get_by_role("radio", name=view, exact=True).click()
    page.locator(f".st-key-{figure} .main-svg").first.wait_for(timeout=READY)
    page.wait_for_timeout(1000)


def _move(page: Page, number: int) -> float:
    """One step back or forth among steps that exist: no step is run, but what the page shows is looked up."""
    key = "ArrowRight" if number % 2 else "ArrowLeft"
    taken = page.evaluate(
        f"""() => {{ const start = performance.now(); const quiet = ({QUIET})(start);
        document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})); return quiet; }}"""
    )
    page.wait_for_timeout(200)
    return float(taken)


def _figure(name: str, values: list[float], most: float) -> Figure:
    ranked = sorted(values)
    return Figure(name, statistics.median(ranked), "ms", most, p90=ranked[int(0.9 * len(ranked))])


if __name__ == "__main__":
    report.main("attention", __doc__ or "", measure, full=Size(), quick=QUICK)
