"""The page "Break it" in the browser: one click switches a fault on, one runs both, and nothing has to be scrolled."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

HOSTILE = "<img src=x onerror=alert(1)>"


def run_both(page: Page, fault: str) -> None:
    page.locator(".st-key-break_fault").get_by_text(fault, exact=True).click()
    expect(page.locator(".st-key-break_answer")).to_contain_text("How one would have noticed", timeout=30_000)
    page.get_by_role("button", name="Run both").click()
    expect(page.locator(".st-key-break_facts")).to_be_visible(timeout=60_000)


def test_healthy_and_broken_stand_side_by_side_without_scrolling(visit):
    page = visit().open("/break_it")
    run_both(page, "Stale cache block")
    expect(page.locator(".st-key-break_facts")).to_contain_text("attn_scores, layer 0")
    expect(page.locator(".st-key-break_broken .differs").first).to_have_text("␣red")
    healthy = page.locator(".st-key-break_healthy .differs").first
    expect(healthy).to_have_text("␣blue")
    expect(healthy).to_have_attribute("title", re.compile("output token 1"))
    for figure in ("bars", "growth"):
        expect(page.locator(f".st-key-break_{figure} [data-painted]")).to_be_visible()
    body = page.locator(".st-key-page_body")
    assert body.evaluate("e => e.getBoundingClientRect().bottom <= window.innerHeight"), "its end can be reached"
    assert body.evaluate("e => e.scrollHeight <= e.clientHeight"), "the main view needs no scrolling"
    assert body.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_hostile_tokens_are_shown_as_text(visit):
    page = visit().open("/break_it")
    page.locator(".st-key-break_fault").get_by_text("None: both healthy", exact=True).click()
    field = page.get_by_label("Prompt of both sides")
    expect(page.locator(".st-key-break_answer")).to_contain_text("No stage is replaced")
    field.fill(HOSTILE)
    field.press("Control+Enter")
    page.locator(".st-key-break_new input").fill("2")
    page.locator(".st-key-break_new input").press("Enter")
    page.get_by_role("button", name="Run both").click()
    expect(page.locator(".st-key-break_facts")).to_contain_text("2 steps compared", timeout=60_000)
    shown = page.locator(".st-key-break_healthy .break-tokens")
    expect(shown).to_contain_text("onerror=alert(1)>")
    assert page.evaluate("document.querySelectorAll('img[src=x], .st-key-break_healthy b').length") == 0
