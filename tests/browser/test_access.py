"""Without a mouse: menus, popovers, pictures, lists with one stop of the Tab key. And windows of all sizes."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import wait_for

FOCUS = """() => { let at = document.activeElement;
    while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    return at === document.body ? null : at?.dataset.testid ?? at?.textContent ?? at?.tagName; }"""
WIDER = """() => [...document.querySelectorAll("html, body, [data-testid=stMain], .st-key-page_body")]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className)"""
HIGHER = "least => document.querySelector('.st-key-sampling_stage_figure .js-plotly-plot')?.clientHeight >= least"
INSIDE = """name => { const find = root => root.querySelector(`[data-testid=${name}]`) ??
    [...root.querySelectorAll("*")].map(e => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
    const last = document.querySelectorAll(".st-key-sampling_view [role=radio]");
    const box = (name ? find(document) : last[last.length - 1]).getBoundingClientRect();
    return box.width > 0 && box.left >= 0 && box.right <= innerWidth; }"""
BODY = ".st-key-page_body"
MENU = "[class*='st-key-page_menu'] button"


def wait_for_focus(page: Page, words: str) -> None:
    wait_for(page, f"words => (({FOCUS})() ?? '').startsWith(words)", words)


def test_the_page_menu_is_entered_walked_and_left_by_keys(visit):
    tab = visit()
    page = tab.open()
    page.locator(MENU).focus()
    page.keyboard.press("Enter")
    wait_for_focus(page, "stPageLink-NavLink")
    page.keyboard.press("Escape")
    wait_for_focus(page, "stPopoverButton")
    page.keyboard.press("Enter")
    wait_for_focus(page, "stPageLink-NavLink")
    page.keyboard.press("Enter")  # the page one is on: the menu closes all the same
    expect(page.get_by_test_id("stPopoverBody")).to_be_hidden()
    wait_for_focus(page, "stPopoverButton")
    page.keyboard.press("Enter")
    wait_for_focus(page, "stPageLink-NavLink")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What does the model file say?", level=1)).to_be_visible()
    wait_for_focus(page, "stPopoverButton")
    page.get_by_test_id("transport-runs").focus()
    page.keyboard.press("Enter")
    wait_for_focus(page, "transport-run")
    page.keyboard.press("Escape")
    wait_for_focus(page, "transport-runs")
    for step in (2, 3):  # what is stepped here counts in the workspace
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}")
    page.locator(MENU).click()
    page.get_by_test_id("stPageLink").get_by_text("Workspace", exact=True).click()
    expect(page.get_by_test_id("token-0")).to_be_visible()
    expect(page.get_by_test_id("transport-step")).to_have_text("step 3 / 3")


def test_a_picture_is_walked_through_a_list_is_one_stop_and_an_error_is_said(visit):
    tab = visit()
    page = tab.open("/attention")
    figure = page.locator(".st-key-attention_maps").get_by_test_id("figure")
    expect(page.locator(".st-key-attention_maps [data-painted]")).to_be_visible()
    figure.focus()
    for key in ("Shift+ArrowRight", "Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight"):
        page.keyboard.press(key)
    said = figure.get_by_role("status")
    expect(said).to_contain_text(re.compile(r"query.* 2\b.*key.* 1\b"))
    tip = page.locator(".st-key-attention_maps").get_by_test_id("figure-tip")
    expect(tip).to_contain_text("query ␣of 2")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_test_id("help")).to_contain_text("walk from cell to cell")
    page.keyboard.press("Escape")
    page.locator(MENU).click()
    page.get_by_test_id("stPageLink").get_by_text("Workspace", exact=True).click()
    for listed in ("strip", "next-list"):
        items = page.get_by_test_id(listed).locator("button:visible")
        expect(items.nth(2)).to_be_visible()
        assert items.evaluate_all("all => all.filter(item => item.tabIndex === 0).length") == 1, listed
    page.get_by_test_id("candidate-0").focus()
    page.keyboard.press("Shift+ArrowDown")
    assert page.evaluate(FOCUS) == "candidate-1"
    page.get_by_test_id("stSidebar").get_by_label("Prompt", exact=True).fill("")
    page.get_by_role("button", name="New run").click()
    expect(page.get_by_test_id("alerts")).to_have_text(re.compile(r"^The prompt is empty"))


def test_a_zoomed_window_loses_nothing_sideways_and_a_high_one_shows_more(visit):
    page = visit().open("/sampling")
    bars = page.locator(".st-key-sampling_stage_figure .js-plotly-plot")
    expect(bars).to_be_visible()
    before = bars.bounding_box()
    assert before is not None
    page.set_viewport_size({"width": 1440, "height": 1080})
    wait_for(page, HIGHER, before["height"] + 120)
    assert page.locator(BODY).evaluate("body => body.scrollHeight <= body.clientHeight")
    for width in (720, 320):  # 1440 px at 200 %, 1280 px at 400 %
        page.set_viewport_size({"width": width, "height": 450})
        for name in (None, "transport-runs", "transport-help"):  # None: the last of the views
            wait_for(page, INSIDE, name)
        assert page.evaluate(WIDER) == []
