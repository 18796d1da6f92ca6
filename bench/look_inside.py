"""The pages that look inside, at 500 tokens in a warm browser: opening each, and moving the cursor, view by view."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from dataclasses import dataclass

from playwright.sync_api import Page, TimeoutError

from bench import report
from bench.interface import _chromium, _prints_to_stderr, new_run
from bench.passage import passage
from bench.report import Figure
from miniinfer.errors import MiniInferError
from miniinfer.models.text import load_tokenizer
from tests.browser.conftest import READY, running_app

MOST_OPEN_MS, MOST_MOVE_MS = 1500.0, 200.0
# Page -> (key of its views, view -> what is there once it is drawn).
PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "Attention": ("attention_view", {
        "Scores to weights": "attention_maps", "Value mix": "attention_mix", "RoPE": "attention_distance",
        "All heads": "attention_heads_map", "Knock out": "attention_each_bars",
    }),
    "Inside a step": ("inside_view", {
        "Stage by stage": "inside_heat", "Watch a tensor": "inside_watch_norm", "Residual stream": "inside_stream_map",
        "Logit lens": "inside_lens_map", "Checks": "inside_checks", "Prefill and decode": "inside_ways_lines",
    }),
    "Tokenizer": ("tokenizer_view", {
        "Stages": "tokenizer_stages", "Segments": "tokenizer_segments", "Characters": "tokenizer_characters_csv",
        "Languages": "tokenizer_costs_figure", "Look up": "tokenizer_found_rows", "Embedding": "tokenizer_near",
    }),
    "Break it": ("break_view", {"Side by side": "break_bars", "Loss": "break_loss_pass"}),
}  # fmt: skip
STILL = "Break it"  # shows what both sides did, wherever the cursor stands
NO_FIGURE = ("checks", "stages", "segments", "csv", "rows", "answer", "body")  # ends of keys
STEPS = 4

# Resolves with the time from `start` to the frame after the last change of the page, of any component or of any canvas
# in it, once nothing changed for 0.4 s. What lies inside a canvas is the mirror of a table that a screen reader reads:
# Streamlit's tables write it anew 0.2 s after they were painted.
QUIET = """(start) => new Promise(done => {
  let last = start, waits = false;
  const painted = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; requestAnimationFrame(() => last = performance.now()); });
  };
  const body = document.querySelector('.st-key-page_body') ?? document.body;
  const all = {subtree: true, childList: true, characterData: true, attributes: true};
  const mirror = ({target}) => (target.nodeType === 1 ? target : target.parentElement)?.closest('canvas > *');
  const seen = new MutationObserver(changes => { if (!changes.every(mirror)) painted(); });
  for (const root of [body, ...[...body.querySelectorAll('*')].map(el => el.shadowRoot).filter(Boolean)])
    seen.observe(root, all);
  const context = CanvasRenderingContext2D.prototype, kept = {};
  for (const name of ['fillRect', 'fillText', 'drawImage']) {
    kept[name] = context[name];
    context[name] = function (...what) { painted(); return kept[name].apply(this, what); };
  }
  const look = setInterval(() => {
    if (last === start || waits || performance.now() - last < 400) return;
    clearInterval(look);
    seen.disconnect();
    Object.assign(context, kept);
    done(last - start);
  }, 20);
})"""


@dataclass(frozen=True)
class Size:
    tokens: int = 500
    events: int = 10
    pages: tuple[str, ...] = tuple(PAGES)


QUICK = Size(tokens=120, events=3)


def measure(size: Size) -> list[Figure]:
    tokenizer, _ = load_tokenizer()
    figures: list[Figure] = []
    with _chromium() as browser, _prints_to_stderr(), running_app() as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address)
        page.get_by_test_id("token-0").wait_for(timeout=READY)  # before it is there, nothing says "recorded" either
        page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
        new_run(page, tokenizer.decode(passage(tokenizer, size.tokens)), 32)
        for step in range(2, STEPS + 1):
            page.keyboard.press("ArrowRight")
            page.get_by_test_id("transport-step").get_by_text(f"step {step} ").wait_for(timeout=READY)
        for name in size.pages:
            key, views = PAGES[name]
            for view, drawn in views.items():
                figures += _view(page, size, name, key, view, drawn)
    return figures


def _view(page: Page, size: Size, name: str, key: str, view: str, drawn: str) -> list[Figure]:
    _open(page, name, ".st-key-page_body")  # the browser loads the page's code once
    if name == STILL and not page.locator(".st-key-break_facts").count():
        page.get_by_role("button", name="Run both").click()
        page.locator(".st-key-break_facts").wait_for(timeout=READY)
    if key:
        page.locator(f".st-key-{key}").get_by_role("radio", name=view, exact=True).click()
    _painted(page, f".st-key-{drawn}")
    page.wait_for_timeout(1500)
    opened = []
    for _ in range(max(2, size.events // 3)):
        _leave(page)
        opened.append(_open(page, name, f".st-key-{drawn}"))
    title = f"{name}, {view}" if view else name
    found = [_figure(f"{title}: page chosen to painted", opened, MOST_OPEN_MS)]
    if key and name != STILL:
        # As many moves back as forth: each view begins at the same step.
        moved = [_move(page, number) for number in range(size.events + size.events % 2)]
        found.append(_figure(f"{title}: cursor moved to painted", moved, MOST_MOVE_MS))
    return found


def _menu(page: Page, name: str) -> None:
    """Open the page menu. An answer that comes in this very moment may close it again."""
    link = page.get_by_test_id("stPopoverBody").get_by_role("link", name=name, exact=True)
    for _ in range(5):
        page.get_by_test_id("stPopover").first.locator("button").first.click()
        with suppress(TimeoutError):
            return link.wait_for(timeout=5000)
    raise MiniInferError(f"The page menu did not open, so {name} could not be chosen. Start the bench again.")


def _leave(page: Page) -> None:
    _menu(page, "Model")
    page.get_by_test_id("stPopoverBody").get_by_role("link", name="Model", exact=True).click()
    page.get_by_text("What does the model file say?").wait_for(timeout=READY)
    page.wait_for_timeout(400)


def _open(page: Page, name: str, drawn: str) -> float:
    """From the click on the page's name to its figure painted, in ms."""
    _menu(page, name)
    begin = time.perf_counter()
    page.get_by_test_id("stPopoverBody").get_by_role("link", name=name, exact=True).click()
    _painted(page, drawn)
    taken = (time.perf_counter() - begin) * 1000
    page.wait_for_timeout(600)
    return taken


def _painted(page: Page, place: str) -> None:
    page.locator(place).first.wait_for(timeout=READY)
    if not place.endswith(NO_FIGURE):
        page.locator(f"{place} [data-painted]").first.wait_for(timeout=READY)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


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
    report.main("look_inside", __doc__ or "", measure, full=Size(), quick=QUICK)
