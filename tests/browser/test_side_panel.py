"""New runs, bad input, hostile text, long prompts, several users."""

import re

import pytest
from playwright.sync_api import expect

HOSTILE = [
    "<script>alert(1)</script>", "a<b<c", "<img src=x onerror=alert(1)>", "<b>bold</b>", "$5 and $6", "**x** _y_ `z`",
    "![x](http://127.0.0.1:9/x.png)", ":material/home: &amp; &lt;b&gt;",
]


def new_run(page, prompt, kind=None):
    page.get_by_label("Prompt", exact=True).fill(prompt)
    if kind:
        page.get_by_test_id("stSidebar").get_by_text(kind, exact=True).click()
    page.get_by_role("button", name="New run").click()


def test_a_new_run_starts_at_its_prompt_and_the_old_one_is_kept(visit):
    tab = visit()
    page = tab.open()
    new_run(page, "The quick brown fox")
    tab.expect_step("step 0")
    expect(page.get_by_test_id("token-3")).to_contain_text("fox")
    page.keyboard.press("Escape")
    page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1")
    page.get_by_test_id("transport-runs").click()
    expect(page.get_by_test_id("transport-run")).to_have_count(2)
    plain, helped = (page.get_by_role("button", name=name).bounding_box() for name in ("New run", "Branch here"))
    assert (plain["y"], plain["height"]) == (helped["y"], helped["height"]), "one line, with a help text or without"


def test_an_empty_prompt_is_a_sentence_and_the_run_is_unharmed(visit):
    tab = visit()
    page = tab.open()
    new_run(page, "")
    expect(page.get_by_test_id("stSidebar")).to_contain_text("The prompt is empty")
    tab.expect_step("step 1")
    expect(page.get_by_test_id("token-0")).to_contain_text("The")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(visit, text):
    tab = visit()
    page = tab.open()
    new_run(page, text)
    tab.expect_step("step 0")
    chips = page.locator('[data-testid^="token-"]')
    expect(chips.first).to_be_visible()
    joined = "".join(re.sub(r"\n?\d+$", "", chip) for chip in chips.all_inner_texts()).replace("␣", " ")
    assert joined.replace("\n", "") == text
    assert page.evaluate("document.querySelectorAll('img[src=x], [data-testid=workspace] script').length") == 0


def test_equal_tokens_are_three_different_positions(visit):
    tab = visit()
    page = tab.open()
    new_run(page, "the the the")
    tab.expect_step("step 0")
    for position, token_id in enumerate(("1195", "260", "260")):
        expect(page.get_by_test_id(f"token-{position}")).to_contain_text(token_id)


def test_chat_shows_the_rendered_template(visit):
    tab = visit()
    page = tab.open()
    new_run(page, "Hi", "chat")
    tab.expect_step("step 0")
    expect(page.locator('[data-testid^="token-"]')).to_have_count(31)
    expect(page.get_by_test_id("token-0")).to_contain_text("<|im_start|>")


def test_five_hundred_tokens_stay_within_a_megabyte_and_usable(visit):
    tab = visit()
    page = tab.open()
    new_run(page, " ".join(["word"] * 500))
    tab.expect_step("step 0")
    page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()
    del tab.received[:]
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1", timeout=60_000)
    page.wait_for_timeout(1500)
    assert sum(tab.received) < 2**20
    del tab.received[:]
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    page.wait_for_timeout(500)
    assert sum(tab.received) < 300_000, "a decode step sends its own rows, not the square"


def test_two_users_do_not_meet(visit):
    first, second = visit(), visit()
    pages = [first.open(), second.open()]
    for page, prompt in zip(pages, ("One two three", "Red green blue"), strict=True):
        new_run(page, prompt)
    for tab, page in zip((first, second), pages, strict=True):
        tab.expect_step("step 0")
        page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
    for tab in (first, second):
        tab.expect_step("step 4")
    expect(pages[0].get_by_test_id("token-2")).to_contain_text("three")
    expect(pages[1].get_by_test_id("token-2")).to_contain_text("blue")


def test_a_model_that_is_not_there_is_named_and_the_old_runs_stay(visit):
    tab = visit()
    page = tab.open()
    page.get_by_test_id("stSidebar").get_by_text("Model", exact=True).first.click()
    page.get_by_label("Model", exact=True).fill("/nowhere/<b>model</b>.gguf")
    page.get_by_role("button", name="Load").click()
    expect(page.get_by_test_id("stSidebar")).to_contain_text("<b>model</b>.gguf", timeout=20_000)
    page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")


def test_what_was_typed_counts_when_its_fold_is_closed_and_opening_it_takes_nothing_away(visit):
    tab = visit()
    page = tab.open()
    side = page.get_by_test_id("stSidebar")
    fold = side.get_by_text("More: min-p, penalties, prefill", exact=True)
    field = side.get_by_label("Repetition penalty", exact=True)
    side.get_by_label("Prompt", exact=True).fill("Red green")
    expect(field).to_have_count(0)
    fold.click()
    expect(field).to_be_visible()
    expect(side.get_by_label("Prompt", exact=True)).to_have_value("Red green")
    field.fill("0")
    fold.click()
    expect(field).not_to_be_visible()
    page.get_by_role("button", name="New run").click()
    expect(side).to_contain_text("repetition_penalty must be")
    tab.expect_step("step 1")
    fold.click()
    expect(field).to_have_value("0.00")
    field.fill("1.5")
    fold.click()
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    expect(page.get_by_test_id("token-1")).to_contain_text("green")
    fold.click()
    expect(field).to_be_visible()
    page.get_by_test_id("stPopoverButton").click()
    page.get_by_test_id("stPageLink").get_by_text("Compare", exact=True).click()
    expect(page.get_by_test_id("stPopoverButton")).to_contain_text("Compare")
    expect(field).to_be_visible()
    expect(field).to_have_value("1.50")


def test_what_is_no_number_stays_in_its_field_and_starts_nothing(visit):
    tab = visit()
    page = tab.open()
    field = page.get_by_test_id("stSidebar").get_by_label("Top-k", exact=True)
    field.press("Control+a")
    page.keyboard.type("1e400")
    field.press("Enter")
    page.get_by_role("button", name="New run").click()
    assert field.evaluate("field => field.validity.badInput"), "Streamlit would put another number there"
    tab.expect_step("step 1")
    field.fill("3")
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    assert page.evaluate("__miniinfer.history.info.params.top_k") == 3
