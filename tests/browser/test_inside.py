"""The page "Inside a step" in the browser: keys and clicks move through the program, and every formula is drawn."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def where(page: Page, words: str) -> None:
    """What the map says and what the panel shows must be the same place."""
    expect(page.get_by_test_id("program-where")).to_have_text(re.compile(words), timeout=30_000)
    name = (page.get_by_test_id("program-where").text_content() or "").split(" ")[-2]
    expect(page.locator(".st-key-inside_where")).to_contain_text(re.compile(rf"\b{name}"), timeout=30_000)


def test_keys_and_clicks_move_through_the_program(visit):
    tab = visit()
    page = tab.open("/inside")
    where(page, "^3 of 344: embed ran")
    page.keyboard.press("n")
    where(page, "^4 of 344: attn_norm ran")
    page.keyboard.press("l")
    where(page, "^14 of 344: mlp_out ran")
    for _ in range(3):
        page.keyboard.press("b")  # as fast as one can: each counts
    where(page, "^11 of 344: attn_out ran")
    page.get_by_test_id("stage-129").click()
    where(page, "^130 of 344: attn_pattern ran")
    expect(page.get_by_test_id("stage-129")).to_have_attribute("aria-current", "step")
    expect(page.locator(".st-key-inside_source")).to_contain_text("scores.float().softmax(dim=-1)")
    expect(page.locator(".st-key-inside_heat [data-painted]")).to_be_visible()
    page.keyboard.press("ArrowRight")  # the run's own cursor
    tab.expect_step("step 2")
    where(page, "^130 of 344: attn_pattern ran")
    page.keyboard.press("u")
    where(page, "^344 of 344: commit ran")
    tab.expect_step("step 2")
    assert page.evaluate(
        "(() => { const e = document.querySelector('.st-key-page_body'); return e.scrollWidth - e.clientWidth })()"
    ) == 0


def test_every_formula_is_drawn_and_pictures_are_saved(visit):
    page = visit().open("/inside")
    where(page, "^3 of 344: embed ran")
    for pc in (1, 2, 4, 6, 8, 13, 336, 343):  # those with fractions, words, sums and braces
        page.get_by_test_id(f"stage-{pc - 1}").click()
        where(page, f"^{pc} of 344")
        expect(page.locator(".st-key-inside .katex-html")).to_have_count(1)
        assert page.locator(".katex-error").count() == 0, pc
    page.get_by_test_id("stage-2").click()
    where(page, "^3 of 344")
    heat = page.locator(".st-key-inside_heat")
    heat.hover()
    with page.expect_download() as download:
        heat.get_by_test_id("figure-svg").click()
    assert download.value.suggested_filename == "embed_resid_pre.svg"
