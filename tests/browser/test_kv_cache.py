"""The KV cache page in the browser: it follows the transport, a branch shares and copies blocks, all views fit."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def view(page: Page, name: str) -> None:
    main = page.get_by_test_id("stMain")
    radio, button = (main.get_by_role(role, name=name, exact=True) for role in ("radio", "button"))
    radio.or_(button).first.click()


def head(page: Page, words: str) -> None:
    expect(page.locator(".st-key-kv_head")).to_contain_text(re.compile(words), timeout=30_000)


def test_the_page_follows_the_transport_and_a_branch_shares_and_copies_blocks(visit):
    tab = visit(theme="dark")
    page = tab.open("/kv_cache")
    head(page, "After step 1 the cache holds 5 positions of this run: used 230,400 B")
    expect(page.locator(".kv-formula")).to_contain_text("3 KV heads")
    expect(page.locator(".st-key-kv_heat .js-plotly-plot")).to_be_visible(timeout=30_000)
    page.keyboard.press("ArrowRight")
    head(page, "After step 2 the cache holds 6 positions of this run: used 276,480 B")
    view(page, "Who reads them")
    expect(page.locator(".st-key-kv_weights .js-plotly-plot")).to_be_visible(timeout=30_000)
    page.keyboard.press("ArrowRight")  # a view that was clicked does not keep the arrows
    head(page, "After step 3")
    view(page, "Blocks")
    expect(page.locator(".st-key-kv_pool .js-plotly-plot")).to_be_visible(timeout=30_000)
    page.locator(".st-key-kv_pick").get_by_role("button", name="Branch here").click()
    shared = page.get_by_text("1 block shared, which saves 737,280 B")
    expect(shared).to_be_visible(timeout=30_000)
    page.keyboard.press("ArrowRight")
    head(page, "After step 4")
    expect(shared).to_have_count(0)
    expect(page.get_by_text("None so far.")).to_have_count(0)
    tab.expect_step("step 4")


def test_every_view_fits_the_width_of_a_small_window(visit):
    page = visit(1280, 720).open("/kv_cache")
    head(page, "After step 1")
    for name in ("Keys and values", "Who reads them", "Blocks", "Bytes", "Predict"):
        view(page, name)
        if name != "Predict":
            expect(page.locator(".st-key-kv .js-plotly-plot").first).to_be_visible(timeout=30_000)
        wide = page.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.st-key-page_body'))")
        assert wide <= 0, name
