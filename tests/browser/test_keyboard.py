"""Without a mouse: the overview of the keys, drawings that are walked through, what is said of a step. And large type,
and a page that is zoomed to 200 %."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import wait_for

SHOWN = "() => [...__miniinferKeys.groups].flatMap(group => group.keys.map(({ does }) => does))"
FOCUS = """() => { let at = document.activeElement;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return [at?.dataset.testid ?? null, Boolean(at?.closest("dialog"))]; }"""
SAYS_ALL = f"""() => {{ const dialog = [...document.querySelectorAll("*")].map(e => e.shadowRoot).filter(Boolean)
    .map(root => root.querySelector("[data-testid=help]")).find(Boolean);
    const lines = [...dialog.querySelectorAll("dd")].map(line => line.textContent).slice(0, -3);
    // Streamlit's own keys are listed where there is a table as it is opened.
    const ours = all => JSON.stringify(all.filter(line => !/^walk from cell to cell$|^choose the row,/.test(line)));
    return ours(lines) === ours(({SHOWN})())
        && lines.includes("walk from cell to cell, with what the pointer would show"); }}"""
SPEECH = """() => { const live = [...document.querySelectorAll("*")].map(e => e.shadowRoot).filter(Boolean)
    .map(root => root.querySelector("[data-testid=transport-live]")).find(Boolean);
    window.heard = []; new MutationObserver(() => heard.push(live.textContent)).observe(live, { childList: true }); }"""


def overview(page: Page) -> list[str]:
    page.keyboard.press("?")
    expect(page.get_by_test_id("help")).to_be_visible()
    lines = page.get_by_test_id("help").locator("dd").all_inner_texts()
    assert page.evaluate(FOCUS)[1]
    return lines


def test_the_overview_lists_the_keys_of_the_page_and_keeps_the_focus(visit):
    tab = visit()
    page = tab.open()
    page.get_by_test_id("transport-forward").focus()
    lines = overview(page)
    assert lines[:-3] == page.evaluate(SHOWN)
    assert {"one step on", "play, pause", "this overview", "leave the cell"} <= set(lines)
    assert "run one stage" not in lines
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUS)[1]
    page.keyboard.press("ArrowRight")  # the page below stands still
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("help")).to_be_hidden()
    assert page.evaluate(FOCUS)[0] == "transport-forward"
    tab.expect_step("step 1")
    page.get_by_test_id("stPopoverButton").click()
    page.get_by_test_id("stPageLink").get_by_text("Inside a step", exact=True).click()
    expect(page.get_by_test_id("program-where")).to_contain_text("ran")
    overview(page)
    wait_for(page, SAYS_ALL)  # parts of the page may be drawn after it was opened
    lines = page.get_by_test_id("help").locator("dd").all_inner_texts()
    assert {"one step on", "run one stage", "walk from stage to stage"} <= set(lines)
    page.get_by_test_id("help-close").click()
    page.keyboard.press("n")
    expect(page.get_by_test_id("program-where")).to_contain_text("4 of")


def walk(page: Page, panel: str, keys: list[str], says: str) -> None:
    page.get_by_test_id(panel).focus()
    for key in keys:
        page.keyboard.press(key)
    expect(page.get_by_test_id("tooltip")).to_contain_text(re.compile(says))
    expect(page.get_by_test_id(panel).get_by_role("status")).to_contain_text(re.compile(says))
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("tooltip")).to_be_hidden()


@pytest.mark.parametrize("large", [False, True])
def test_drawings_are_walked_through_and_acted_on_also_in_large_type(visit, large):
    tab = visit()
    page = tab.open()
    page.emulate_media(reduced_motion="reduce")
    if large:
        page.get_by_test_id("transport-large").click()
        page.reload()
        tab.expect_step("step 1")
        expect(page.get_by_test_id("transport-large")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    left, up, right = "Shift+ArrowLeft", "Shift+ArrowUp", "Shift+ArrowRight"
    walk(page, "attention-head-map", [right, left, left], r"5 → 3")
    walk(page, "kv-canvas", [right, left, "Shift+ArrowDown"], r"layer\W*1(?!\d)")
    if not large:  # the panel has room for it
        walk(page, "step-timeline", [right, left], r"1, prefill")
    page.get_by_test_id("attention-heads").focus()
    page.keyboard.press(right)
    page.keyboard.press(up)
    layer, head = (int(page.get_by_test_id(f"attention-{name}").input_value()) for name in ("layer", "head"))
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("attention-layer")).to_have_value(str(layer - 1))
    expect(page.get_by_test_id("attention-head")).to_have_value(str(head))
    page.keyboard.press("ArrowLeft")  # the arrows alone step
    tab.expect_step("step 1")
    assert page.evaluate(FOCUS)[0] == "attention-heads"
    assert page.evaluate("document.getAnimations().filter(a => a.playState === 'running').length") == 0, "less motion"


def test_a_step_is_said_and_playing_does_not_chatter(visit):
    tab = visit()
    page = tab.open()
    page.evaluate(SPEECH)
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    live = page.get_by_test_id("transport-live")
    expect(live).to_have_text(re.compile(r"^Step 2 of \d+, decode: token .+, probability .+ %\.$"))
    began = page.evaluate("performance.now()")
    page.keyboard.press("End")  # from the last step, on to the end
    tab.expect_step("step 32", timeout=60_000)
    expect(live).to_have_text(re.compile(r"^Step 32 of 32, decode"))
    seconds = (page.evaluate("performance.now()") - began) / 1000
    assert len(page.evaluate("heard")) <= 3 + seconds / 3, "one sentence in three seconds, and the last"
    page.get_by_test_id("stPopoverButton").click()
    page.get_by_test_id("stPageLink").get_by_text("Model", exact=True).click()
    expect(page.get_by_text("What does the model file say?")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_test_id("transport-live")).to_have_text(re.compile(r"^Step 31 of 32, decode: token .+ %\.$"))


AT_THE_END = """() => { const main = document.querySelector("[data-testid=stMain]");
    return main.scrollTop > 0 && getComputedStyle(main).overflowY === "auto"
        && main.scrollTop + main.clientHeight >= main.scrollHeight - 1; }"""
FITS = """panel => { const find = root => root.querySelector(`[data-testid=panel-${panel}]`) ??
    [...root.querySelectorAll("*")].map(e => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
    const box = find(document).getBoundingClientRect();
    return box.width > 120 && box.height > 30 && box.right <= innerWidth + 1 && box.bottom <= innerHeight + 1; }"""


def test_panels_fit_in_large_type_and_at_200_percent_all_is_reached_by_scrolling_down(visit):
    page = visit().open()
    small = page.get_by_test_id("token-1").bounding_box()["height"]
    page.get_by_test_id("transport-large").click()
    for width, height in ((1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for panel in ("tokens", "attention", "next", "kv", "step"):
            wait_for(page, FITS, arg=panel)
        assert page.get_by_test_id("token-1").bounding_box()["height"] > 1.2 * small
        assert page.evaluate("document.documentElement.scrollHeight <= document.documentElement.clientHeight")
    page.get_by_test_id("transport-large").click()
    page.set_viewport_size({"width": 720, "height": 450})  # what 1440 x 900 is at 200 %
    page.get_by_test_id("workspace").locator(".grid.narrow").wait_for()
    for panel in ("tokens", "attention", "next", "kv", "step"):
        place = page.get_by_test_id(f"panel-{panel}")
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        assert box["x"] >= 0, panel
        assert box["x"] + box["width"] <= 721, panel
        assert min(box["width"] - 120, box["height"] - 40) > 0, panel
        page.mouse.move(360, 300)
        page.mouse.wheel(0, 2000)
    wait_for(page, AT_THE_END)
    end = page.get_by_test_id("panel-step").bounding_box()
    assert end["y"] + end["height"] <= 451
    for name in ("transport-play", "transport-help", "stPopoverButton"):
        page.get_by_test_id("stMain").evaluate("main => (main.scrollTop = 0)")
        box = page.get_by_test_id(name).first.bounding_box()
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= 720, name
