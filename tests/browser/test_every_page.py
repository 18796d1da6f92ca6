"""Every page with a model, a run and texts from strangers: nothing runs, nothing is fetched, nothing is cut off, and
people who see, hear or point differently can use it. One tab for all; each page is visited once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, expect

from tests.browser.conftest import READY, Visit, wait_for
from tests.browser.hostile import IMAGE, MARK, PROMPT, write_hostile_model
from tests.browser.test_contrast import MEASURE

PAGES = [
    "Workspace", "Sampling", "KV cache", "Cost", "Batching", "Tokenizer", "Attention", "Inside a step", "Break it",
    "Compare", "Model", "Runs",
]  # fmt: skip
LONG = 60_000
RUN = "__miniinfer.history.info.id"
AXE = AXE_FILE_PATH.read_text("utf-8")

# What is Streamlit's own and cannot be changed from here, by rule and selector.
NOT_OURS: dict[str, tuple[str, ...]] = {}

RUN_AXE = """rules => axe.run(document, { resultTypes: ["violations"], ...(rules ? { runOnly: rules } : {}) })
    .then(found => found.violations)"""
SETTLED = """() => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "notRunning"
    && !document.querySelector("[data-testid=stSkeleton], [data-stale=true]")
    && document.getAnimations().every(a => a.playState !== "running" || a.effect.getTiming().iterations === Infinity)"""
WIDER = """() => [...document.querySelectorAll("html, body, [data-testid=stMain], .st-key-page_body")]
    .filter(e => e.scrollWidth > e.clientWidth).map(e => e.className)"""
DRAWN = """dark => __miniinfer.store.frame.dark === dark
    && getComputedStyle(document.querySelector("[data-testid=stApp]")).colorScheme === (dark ? "dark" : "light")"""


class Tour(Visit):
    def go(self, title: str) -> None:
        menu = self.page.get_by_test_id("stPopoverButton").first
        if title not in (menu.inner_text() or ""):
            menu.click()
            self.page.get_by_test_id("stPageLink").get_by_text(title, exact=True).click()
            expect(menu).to_contain_text(title)
        self.settle()

    def settle(self) -> None:
        wait_for(self.page, SETTLED, timeout=LONG)

    def theme(self, name: str) -> None:
        self.page.emulate_media(color_scheme=name)  # type: ignore[arg-type]
        if "Workspace" not in self.page.get_by_test_id("stPopoverButton").first.inner_text():
            wait_for(self.page, DRAWN, arg=name == "dark", timeout=LONG)
        self.settle()

    def violations(self, rules: list[str] | None = None) -> list[str]:
        """rules: those alone; None: all that axe-core has."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
        return [
            f"{found['impact']} {found['id']}: {json.dumps(node['target'])} {node['html'][:160]}"
            for found in self.page.evaluate(RUN_AXE, rules)
            for node in found["nodes"]
            if found["impact"] in ("serious", "critical") and not is_theirs(found["id"], node)
        ]


def is_theirs(rule: str, node: dict[str, Any]) -> bool:
    return any(part in json.dumps(node["target"]) for part in NOT_OURS.get(rule, ()))


@pytest.fixture(scope="module")
def tour(chromium: Browser, address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    tab = Tour(context.new_page(), address)
    page = tab.open()
    load(tab, write_hostile_model(tmp_path_factory.mktemp("hostile")))
    start(tab, PROMPT, "raw")
    start(tab, IMAGE, "chat")
    for step in (1, 2):
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}")
    yield tab
    context.close()


def load(tab: Tour, path: Path) -> None:
    side = tab.page.get_by_test_id("stSidebar")
    side.get_by_text("Model", exact=True).first.click()
    side.get_by_label("Model", exact=True).fill(str(path))
    side.get_by_role("button", name="Load").click()
    expect(tab.page.locator(".st-key-model_status")).to_contain_text(path.stem[:20], timeout=READY)


def start(tab: Tour, prompt: str, kind: str) -> None:
    side = tab.page.get_by_test_id("stSidebar")
    side.get_by_label("Prompt", exact=True).fill(prompt)
    side.get_by_text(kind, exact=True).click()
    before = tab.page.evaluate(RUN)
    side.get_by_role("button", name="New run").click()
    wait_for(tab.page, f"before => {RUN} !== before", before)
    tab.expect_step("step 0")


@pytest.mark.parametrize("title", PAGES)
def test_page(tour: Tour, title: str) -> None:
    page = tour.page
    tour.go(title)
    assert page.evaluate(MARK) is None, "text became code"
    assert page.evaluate("document.querySelectorAll('img[src=x], a[href^=javascript]').length") == 0
    assert page.evaluate(WIDER) == []
    assert tour.violations() == []
    assert page.evaluate(MEASURE) == []
    tour.theme("dark")  # of all rules only contrast depends on it
    assert tour.violations(["color-contrast"]) == []
    assert page.evaluate(MEASURE) == []
    tour.theme("light")
    assert tour.errors == []
    assert tour.hosts <= {tour.address.removeprefix("http://"), ""}, "a request left the app's own origin"


def test_the_tour_has_all_pages(tour: Tour) -> None:
    tour.page.get_by_test_id("stPopoverButton").first.click()
    assert tour.page.get_by_test_id("stPageLink").all_inner_texts() == PAGES
    tour.page.keyboard.press("Escape")


def test_too_many_letters_are_a_sentence(tour: Tour) -> None:
    page = tour.page
    tour.go("Workspace")
    side = page.get_by_test_id("stSidebar")
    side.get_by_text("raw", exact=True).click()
    for letters, answer in (("a" * 100_000, "context"), ("a" * 100_001, "at most 100,000")):
        side.get_by_label("Prompt", exact=True).fill(letters)
        side.get_by_role("button", name="New run").click()
        expect(page.locator(".st-key-panel_error")).to_contain_text(answer, timeout=LONG)
        assert page.evaluate(WIDER) == []
    assert tour.errors == []


def test_half_a_character_becomes_a_sign_before_it_is_sent(tour: Tour) -> None:
    page = tour.page
    tour.go("Workspace")
    prompt = page.get_by_test_id("stSidebar").get_by_label("Prompt", exact=True)
    prompt.evaluate("""area => {
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(area, "half\\ud800 of it");
        area.dispatchEvent(new Event("input", { bubbles: true })); }""")
    expect(prompt).to_have_value("half\ufffd of it")
    page.get_by_role("button", name="New run").click()
    expect(page.get_by_test_id("transport")).to_contain_text("half\ufffd of it")
    assert tour.errors == []
