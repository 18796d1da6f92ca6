"""The batching page in the browser: keys step the batch, hover links without traffic, a request is aborted."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.test_exports import choose, csv_rows, read_picture, saved

LONG = 60_000  # ms; a step on a slow, busy machine


def test_keys_step_the_batch_hover_sends_nothing_and_a_request_is_aborted(visit):
    tab = visit()
    page = tab.open("/batching")
    expect(page.get_by_test_id("batching")).to_be_visible(timeout=LONG)
    tab.expect_step("step 0")
    for step in (1, 2):
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}", LONG)
    expect(page.get_by_test_id("row-0")).to_contain_text("decode at")
    before = tab.sent
    page.get_by_test_id("lane-1").hover()
    expect(page.get_by_test_id("row-1")).to_have_class(re.compile("lit"))
    expect(page.get_by_test_id("batching-tip")).to_contain_text("The capital of France is")
    page.get_by_test_id("row-2").hover()
    expect(page.get_by_test_id("lane-2")).to_have_class(re.compile("lit"))
    page.get_by_test_id("batching-blocks").hover(position={"x": 12, "y": 12})
    expect(page.locator(".batch-row.lit")).to_have_count(1)
    expect(page.locator(".lane-name.lit")).to_have_count(1)
    page.get_by_text("wall time", exact=True).click()
    page.keyboard.press("ArrowLeft")
    tab.expect_step("step 1")
    expect(page.get_by_test_id("row-0")).to_contain_text("prefill 0 to")
    assert tab.sent == before, "looking, hovering and going back ask nothing of the server"
    page.keyboard.press("Home")
    tab.expect_step("step 0")
    page.get_by_test_id("abort-0").click()
    page.keyboard.press("End")
    tab.expect_step("step 2")
    expect(page.get_by_test_id("state-0")).to_have_text("aborted", timeout=LONG)
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 3", LONG)
    expect(page.get_by_test_id("row-0")).to_have_count(0)
    expect(page.get_by_test_id("row-1")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    body = page.locator(".st-key-page_body")
    assert body.evaluate("e => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth"), "no page scroll"
    page.reload()
    tab.expect_step("step 3", LONG)  # computed again, as far as it had come
    expect(page.get_by_test_id("state-0")).to_have_text("aborted")
    page.keyboard.press("ArrowLeft")
    page.get_by_test_id("batching-timeline").hover(position={"x": 40, "y": 8})
    expect(page.get_by_test_id("batching-tip")).to_contain_text("in step 2decode")  # then it was aborted
    page.get_by_test_id("transport-step").hover()
    page.get_by_role("button", name="Run", exact=True).click()
    tab.expect_step("step 0", LONG)
    page.keyboard.press("Space")  # plays; it does not press the button again
    tab.expect_step("step [1-9]", LONG)
    page.keyboard.press("Space")
    page.get_by_role("button", name="Batching").first.click()
    page.get_by_role("link", name="Workspace").click()
    expect(page.get_by_test_id("token-0")).to_be_visible()
    tab.expect_step("step 1")  # the run again, where it was


def test_each_panel_has_its_table_its_csv_and_its_picture_and_can_fill_the_window(visit):
    tab = visit()
    page = tab.open("/batching")
    tab.expect_step("step 0", LONG)
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1", LONG)
    for panel, first, count in (("lanes", "no.", 8), ("rows", "no.", 4), ("pool", "block", 10)):
        picture = read_picture(saved(page, panel, "save-png"))
        ground = picture.getpixel((0, 0))
        inked = sum(n for n, colour in picture.getcolors(2**24) or [] if colour != ground)
        assert inked > 0.01 * picture.width * picture.height, panel
        rows = csv_rows(page, panel)
        assert (rows[0][0], len(rows)) == (first, count + 1)
        choose(page, panel, "show-table")
        expect(page.get_by_test_id(f"{panel}-twin").locator("tbody tr")).to_have_count(count)
    page.get_by_test_id("rows-twin").locator("tbody tr").nth(2).hover()
    expect(page.get_by_test_id("batching-tip")).to_contain_text("in step 1")
    for panel in ("lanes", "rows", "pool"):
        page.get_by_test_id(f"{panel}-table-close").click()
    page.get_by_test_id("rows-fill").click()
    expect(page.get_by_test_id("batching-lanes")).to_be_hidden()
    expect(page.get_by_test_id("row-0")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("batching-lanes")).to_be_visible()
