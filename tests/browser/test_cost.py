"""The cost page in the browser: a measurement runs while the run is stepped, draws itself, and can be cancelled."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.test_sampling import view

LONG = 90_000  # ms; a measurement on a slow, busy machine


def test_a_measurement_leaves_the_run_steppable_and_draws_itself(visit):
    tab = visit()
    page = tab.open("/cost")
    expect(page.get_by_text("Time to first token")).to_be_visible()
    expect(page.locator(".st-key-cost_flame .slice").first).to_be_visible()
    page.get_by_role("button", name="Measure layer by layer").click()
    expect(page.locator(".st-key-cost_progress")).to_contain_text("Measuring:")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    expect(page.get_by_text("the stages add up to all but").first).to_be_visible(timeout=LONG)
    expect(page.locator(".st-key-cost_flame .slice").first).to_be_visible()
    expect(page.locator(".st-key-cost_progress")).to_have_count(0)
    tab.expect_step("step 2")


def test_a_long_measurement_is_cancelled(visit):
    tab = visit(1280, 720)
    page = tab.open("/cost")
    view(page, "Cache on / off")
    page.get_by_role("button", name="Run with and without the cache").click()
    expect(page.locator(".st-key-cost_progress")).to_contain_text("Measuring:")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".st-key-cost_notice")).to_have_text("The measurement was cancelled.", timeout=LONG)
    expect(page.get_by_role("button", name="Run with and without the cache")).to_be_enabled()
    body = page.locator(".st-key-page_body")
    assert body.evaluate("e => e.scrollWidth <= e.clientWidth"), "nothing is cut off at the side"


def test_before_the_first_step_a_button_takes_one_there_and_the_keys_go_on(visit):
    tab = visit()
    page = tab.open("/cost")
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    page.get_by_role("button", name="Make step 1").click()
    tab.expect_step("step 1")
    expect(page.locator(".st-key-cost_flame .slice").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    expect(page.get_by_text("Decode, step 2, the step you are on")).to_be_visible()
