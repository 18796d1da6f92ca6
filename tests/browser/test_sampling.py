"""The sampling page in the browser: it follows the transport, settings are tried at once, a branch is one click."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

HOSTILE = "<img src=x onerror=alert(1)> <b>a</b> :material/home:"


def view(page: Page, name: str) -> None:
    page.get_by_test_id("stMain").get_by_role("radio", name=name, exact=True).or_(
        page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True)
    ).first.click()


def head(page: Page, words: str) -> None:
    expect(page.locator(".st-key-sampling_head")).to_contain_text(re.compile(words), timeout=30_000)


def test_the_page_follows_the_transport_and_tries_settings_without_touching_the_run(visit):
    tab = visit()
    page = tab.open("/sampling")
    head(page, "^Step 1: after")
    page.keyboard.press("ArrowRight")
    head(page, "^Step 2: after")
    expect(page.locator(".st-key-sampling_stage_figure .ytick")).to_have_count(13, timeout=30_000)
    page.get_by_test_id("stMain").get_by_role("spinbutton", name="Temperature").fill("0")
    page.keyboard.press("Enter")
    head(page, "What if: with the settings at the left, 1 could be drawn")
    page.get_by_test_id("stMain").get_by_role("spinbutton", name="Top-p").fill("1.5")
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-sampling_error_top_p")).to_contain_text("top_p must be above 0 and at most 1")
    tab.expect_step("step 2")
    page.get_by_role("button", name="Back to the run's own").click()
    expect(page.locator(".st-key-sampling_error_top_p")).to_have_count(0)
    expect(page.locator(".st-key-sampling_head")).not_to_contain_text("What if")


def test_a_branch_is_one_click_and_the_tree_shows_it(visit):
    tab = visit()
    page = tab.open("/sampling")
    head(page, "^Step 1: after")
    page.get_by_test_id("stMain").get_by_role("spinbutton", name="Temperature").fill("0")
    page.keyboard.press("Enter")
    head(page, "What if")
    page.get_by_role("button", name="Use these from here").click()
    expect(page.locator(".st-key-sampling_head")).not_to_contain_text("What if", timeout=30_000)
    view(page, "Branches")
    page.get_by_label("Type how the text goes on from step 1").last.fill(" a b")
    page.get_by_role("button", name="Branch with this").click()
    head(page, "^Step 2: after .* was forced to take “␣b”")
    tree = page.locator(".st-key-sampling_tree_figure")
    expect(tree.locator(".ytick")).to_have_count(3)
    expect(tree.locator(".legendtext")).to_have_text(
        ["shared KV cache", "forced token", "new settings", "first difference", "you are here"]
    )
    tree.locator(".scatterlayer .points path.point").first.click(force=True)
    head(page, "^Step 1: after")
    tab.expect_step("step 1")
    expect(page).to_have_url(re.compile("run=r1&step=1"))
    page.get_by_test_id("transport-runs").click()
    expect(page.get_by_test_id("transport-run")).to_have_count(3)


def test_two_seeds_of_one_prompt_step_together_in_two_columns(visit):
    tab = visit()
    page = tab.open("/sampling")
    head(page, "^Step 1: after")
    page.get_by_test_id("stMain").get_by_role("textbox", name="Seed").fill("5")
    page.keyboard.press("Enter")
    head(page, "What if")
    page.get_by_role("button", name="Run the prompt with these").click()
    expect(page.locator(".st-key-sampling_head")).not_to_contain_text("What if", timeout=30_000)
    view(page, "Side by side")
    for step in (2, 3):
        page.get_by_test_id("transport-forward").click()
        for letter, seed in (("A", 5), ("B", 0)):
            column = page.locator(f".st-key-sampling_beside_{letter}")
            expect(column).to_contain_text(f"seed {seed}")
            expect(column).to_contain_text(f"Output token {step}: after", timeout=30_000)
    expect(page.locator(".st-key-sampling_beside_figure .ytick").first).to_be_visible()


def test_what_is_longer_than_the_window_can_be_scrolled_to(visit):
    tab = visit(1280, 720)
    page = tab.open("/sampling")
    head(page, "^Step 1: after")
    last = page.get_by_text("Table of this figure")
    expect(last).not_to_be_in_viewport()
    page.locator(".st-key-page_body").hover()
    page.mouse.wheel(0, 2000)
    expect(last).to_be_in_viewport()
    expect(page.get_by_test_id("transport")).to_be_in_viewport()


def test_guesses_are_written_down_before_the_step_is_run(visit):
    tab = visit()
    page = tab.open("/sampling")
    head(page, "^Step 1: after")
    view(page, "Predict")
    page.get_by_role("textbox", name="Guesses, one a line").fill("the\nzebra")
    page.get_by_role("button", name="Reveal step 2").click()
    head(page, "^Step 2: after")
    expect(page.get_by_text("All rounds of this run:")).to_contain_text("of 2 guesses were taken")


def test_hostile_tokens_are_shown_as_text(visit):
    tab = visit()
    page = tab.open("/sampling")
    page.get_by_label("Prompt", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    page.get_by_test_id("transport-forward").click()
    head(page, "^Step 1: after")
    shows = {"Stages": "Outline: before", "Any token": "The best 50", "What if": "Who wins", "Branches": "Where did"}
    for name, words in shows.items():
        view(page, name)
        expect(page.locator(".st-key-sampling").get_by_text(words).first).to_be_visible()
        assert page.evaluate("document.querySelectorAll('img[src=x], .st-key-sampling b').length") == 0
