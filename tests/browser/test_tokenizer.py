"""The tokenizer page in the browser: merges are stepped through there, chips select their piece, texts stay text."""

from __future__ import annotations

import re

from playwright.sync_api import expect


def view(page, name):
    page.get_by_test_id("stMain").get_by_role("radio", name=name, exact=True).or_(
        page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True)
    ).first.click()


def test_merges_are_stepped_through_without_the_server(visit):
    tab = visit()
    page = tab.open("/tokenizer")
    expect(page.get_by_test_id("ladder-title")).to_contain_text("Piece 1: “␣capital”", timeout=30_000)
    expect(page.get_by_test_id("ladder-step")).to_have_text("merge 7 of 7")
    sent = tab.sent
    page.get_by_test_id("ladder-first").click()
    expect(page.get_by_test_id("ladder-say")).to_have_text(
        "Merge 1 joins “Ġ” and “c”, rank 13: it is the lowest of 7 ranks; the next is 17."
    )
    expect(page.get_by_test_id("pairs").locator("tr").first).to_contain_text("Ġ + c")
    page.get_by_test_id("ladder-forward").click()
    expect(page.get_by_test_id("ladder-say")).to_contain_text("joins “i” and “t”, rank 17")
    page.get_by_test_id("tok-3").click()
    expect(page.get_by_test_id("ladder-title")).to_contain_text("Piece 3: “␣France”")
    page.get_by_test_id("tok-0").hover()
    expect(page.get_by_test_id("token-tip")).to_contain_text("54 68 65")
    assert tab.sent == sent
    with page.expect_download() as download:
        page.get_by_test_id("ladder-png").click()
    assert download.value.suggested_filename == "merges_france.png"
    page.get_by_test_id("tok-0").evaluate("chip => chip.dataset.kept = 'yes'")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    expect(page.get_by_test_id("ladder-title")).to_contain_text("␣France")
    expect(page.get_by_test_id("tok-0")).to_have_attribute("data-kept", "yes")


def test_a_hostile_text_is_shown_as_text_and_nothing_is_cut_off(visit):
    tab = visit(1280, 720)
    page = tab.open("/tokenizer")
    field = page.get_by_test_id("stMain").get_by_label("Text", exact=True)
    field.fill("<img src=x onerror=alert(1)> <b>🦜</b>" + " many words here" * 40)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_test_id("tok-0")).to_contain_text("<", timeout=30_000)
    expect(page.get_by_test_id("token-strip")).to_contain_text(re.compile("many"))
    for name in ("Stages", "Segments", "Characters", "Languages", "Embedding"):
        view(page, name)
        expect(page.get_by_test_id("stMain").get_by_role("radio", name=name).or_(
            page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True)
        ).first).to_be_visible()  # fmt: skip
        assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
