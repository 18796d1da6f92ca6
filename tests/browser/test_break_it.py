"""The page "Break it" in the browser: one click switches a fault on, one runs both, nothing has to be scrolled, and
what a prompt says is text."""

from __future__ import annotations

import re

from playwright.sync_api import expect

HOSTILE = "<img src=x onerror=alert(1)>"


def test_healthy_and_broken_stand_side_by_side_and_tokens_are_text(visit):
    page = visit().open("/break_it")
    answer = page.locator(".st-key-break_answer")
    page.locator(".st-key-break_fault").get_by_text("KV heads tiled, not repeated", exact=True).click()
    expect(answer).to_contain_text("Query head h reads key/value head h mod K")
    prompt = page.get_by_label("Prompt of both sides")
    prompt.fill(HOSTILE)
    prompt.press("Control+Enter")
    tokens = page.locator(".st-key-break_new input")
    tokens.fill("1")
    tokens.press("Enter")
    page.get_by_role("button", name="Run both").click()
    facts = page.locator(".st-key-break_facts")
    expect(facts).to_contain_text("attn_scores, layer 0", timeout=60_000)
    expect(facts).to_contain_text("as claimed")
    healthy, broken = (page.locator(f".st-key-break_{side}") for side in ("healthy", "broken"))
    for side in (healthy, broken):
        expect(side.locator(".break-tokens")).to_contain_text("onerror=alert(1)>")
        expect(side.locator(".differs")).to_have_attribute("title", re.compile("output token 1"))
    for figure in ("bars", "growth"):
        expect(page.locator(f".st-key-break_{figure} [data-painted]")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
    body = page.locator(".st-key-page_body")
    assert body.evaluate("e => e.getBoundingClientRect().bottom <= window.innerHeight"), "its end can be reached"
    assert body.evaluate("e => e.scrollHeight <= e.clientHeight"), "the main view needs no scrolling"
    assert body.evaluate("e => e.scrollWidth <= e.clientWidth")
