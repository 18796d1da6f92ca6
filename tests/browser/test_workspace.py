"""The main job in a browser: step, go back, play, branch, with linked panels, on the real model."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import wait_for

# Painted together, so of one step: in percent of the bar, where the drawn part begins, the coin lies, the part ends.
COIN = """draw => {
  const part = draw.querySelector('.part.drawn').style;
  const left = parseFloat(part.left);
  const coin = draw.querySelector('.coin').style.transform.match(/[\\d.]+/)[0];
  return [left, parseFloat(coin), left + parseFloat(part.width)];
}"""
SIZES = [(1440, 900), (1920, 1080), (1280, 720)]


def test_first_visit_shows_a_run_that_moves_and_goes_live(visit):
    page = visit().open(live=False)
    expect(page.get_by_test_id("workspace")).to_be_visible()
    expect(page.get_by_test_id("token-0")).to_contain_text("The")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("transport-step")).to_contain_text("step 2")
    expect(page.get_by_test_id("transport-recorded")).to_be_hidden(timeout=120_000)
    expect(page.get_by_test_id("transport-step")).to_contain_text("step 2")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_scrolls_and_every_panel_is_there(visit, width, height, theme):
    page = visit(width, height, theme).open()
    expect(page.get_by_test_id("token-5")).to_be_visible()
    page.wait_for_timeout(500)  # the workspace takes its height when the frame above it has its own
    for panel in ("tokens", "attention", "next", "kv", "step"):
        box = page.get_by_test_id(f"panel-{panel}").bounding_box()
        assert box is not None, panel
        assert box["width"] > 120, panel
        assert box["x"] + box["width"] <= width + 1, panel
        assert box["y"] + box["height"] <= height + 1, panel
    assert page.evaluate("document.documentElement.scrollHeight <= document.documentElement.clientHeight")
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollHeight <= main.clientHeight")


def test_keys_step_forth_and_back_and_the_address_follows(visit):
    tab = visit()
    page = tab.open()
    for step in (2, 3, 4):
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}")
    page.keyboard.press("ArrowLeft")
    tab.expect_step("step 3")
    expect(page).to_have_url(re.compile(r"step=3\b"))
    page.keyboard.press("Home")
    tab.expect_step("step 0")
    page.keyboard.press("End")
    tab.expect_step("step 4")
    page.keyboard.press("End")  # from the last step there is, End runs on to the end of the run
    tab.expect_step("step 32", timeout=60_000)
    expect(page.get_by_test_id("transport-step")).to_contain_text("ended")
    for step in range(31, 21, -1):  # in some of them the draw fell on a token from far down the list
        page.keyboard.press("ArrowLeft")
        tab.expect_step(f"step {step}")
        page.locator(".part.drawn").wait_for()
        left, coin, right = page.locator(".draw").evaluate(COIN)  # whichever step is painted by now
        assert left - 1e-3 <= coin <= right + 1e-3


def test_buttons_do_what_keys_do(visit):
    tab = visit()
    page = tab.open()
    page.get_by_test_id("transport-forward").click()
    tab.expect_step("step 2")
    page.get_by_test_id("transport-back").click()
    tab.expect_step("step 1")


def test_ten_quick_presses_are_ten_steps(visit):
    tab = visit()
    page = tab.open()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    tab.expect_step("step 11")


def test_play_and_pause(visit):
    tab = visit()
    page = tab.open()
    page.keyboard.press("Space")
    expect(page.get_by_test_id("transport-play")).to_contain_text("Pause")
    expect(page.get_by_test_id("transport-step")).to_have_text(re.compile(r"^step ([3-9]|\d\d)\b"))
    page.keyboard.press("Space")
    expect(page.get_by_test_id("transport-play")).to_contain_text("Play")
    shown = page.get_by_test_id("transport-step").inner_text()
    page.wait_for_timeout(1200)
    assert page.get_by_test_id("transport-step").inner_text() == shown


def test_keys_typed_into_the_prompt_do_not_step(visit):
    tab = visit()
    page = tab.open()
    tab.expect_step("step 1")
    page.get_by_label("Prompt", exact=True).click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    tab.expect_step("step 1")


def test_hover_links_the_panels_without_asking_the_server(visit):
    tab = visit()
    page = tab.open()
    page.wait_for_timeout(1500)
    sent = tab.sent
    for position in (3, 1, 4):
        page.get_by_test_id(f"token-{position}").hover()
        expect(page.get_by_test_id("tooltip")).to_contain_text(re.compile(rf"position\s*{position}(?!\d)"))
    page.get_by_test_id("kv-canvas").hover()
    expect(page.get_by_test_id("tooltip")).to_be_visible()
    page.get_by_test_id("candidate-1").hover()
    page.wait_for_timeout(400)
    assert tab.sent == sent


def test_an_ask_leaves_in_the_task_of_its_key(visit):
    tab = visit()
    page = tab.open()
    sent, timer = page.evaluate("""async () => {
        let sent = 0;
        const send = WebSocket.prototype.send;
        WebSocket.prototype.send = function (data) { sent += 1; return send.call(this, data); };
        const key = { key: "ArrowRight", code: "ArrowRight", bubbles: true, composed: true };
        document.body.dispatchEvent(new KeyboardEvent("keydown", key));
        for (let turn = 0; turn < 5; turn++) await null;  // microtasks only: no timer and no frame comes between
        WebSocket.prototype.send = send;
        return [sent, window.setTimeout.toString()];
    }""")
    assert sent == 1
    assert "[native code]" in timer, "what stood in for the browser's timer is gone"
    tab.expect_step("step 2")


def test_back_and_scrub_do_not_run_the_model(visit):
    tab = visit()
    page = tab.open()
    page.keyboard.press("End")
    tab.expect_step("step 32", timeout=60_000)
    times = page.get_by_test_id("step-ms").inner_text()
    page.keyboard.press("Home")
    tab.expect_step("step 0")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    tab.expect_step("step 3")
    page.keyboard.press("End")
    tab.expect_step("step 32")
    assert page.get_by_test_id("step-ms").inner_text() == times, "a step that ran again would have taken another time"


def output_of(page: Page) -> list[str]:
    chips = page.locator('[data-testid^="token-"]')
    return [re.sub(r"\s+", " ", text) for text in chips.all_inner_texts()]


def test_forcing_a_candidate_starts_a_branch_and_keeps_the_run(visit):
    tab = visit()
    page = tab.open()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    tab.expect_step("step 4")
    before = output_of(page)
    drawn = page.get_by_test_id("token-8").text_content() or ""
    page.get_by_test_id("candidate-2").dblclick()  # a double click is one wish: the runs are counted below
    expect(page.get_by_test_id("token-8")).not_to_have_text(drawn)
    after = output_of(page)
    assert after[:8] == before[:8], "what came before the forced token is the same"
    assert after[8] != before[8]
    expect(page.get_by_test_id("transport-runs")).to_contain_text("The capital of France is ›step 4: “")
    assert page.get_by_test_id("next-list").evaluate("list => list.clientHeight % 23") == 0, "no row is cut in half"
    tab.expect_step("step 4")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 5")
    page.get_by_test_id("transport-runs").click()
    expect(page.get_by_test_id("transport-run")).to_have_count(2)
    page.get_by_test_id("transport-run").first.click()
    tab.expect_step("step 4")
    assert output_of(page)[:9] == before[:9]


def test_a_prompt_token_can_be_looked_at(visit):
    page = visit().open()
    page.get_by_test_id("token-3").click()
    expect(page.get_by_test_id("next-context")).to_contain_text("France")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("next-context")).to_contain_text("is")


def test_another_page_and_back_keeps_run_and_step(visit):
    tab = visit()
    page = tab.open()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    tab.expect_step("step 3")
    for name in ("Model", "Compare", "Workspace"):
        page.get_by_test_id("stPopoverButton").click()
        page.get_by_test_id("stPageLink").get_by_text(name, exact=True).click()
        expect(page.get_by_test_id("stPopoverButton")).to_contain_text(name)
        tab.expect_step("step 3")
        expect(page).to_have_url(re.compile(r"step=3\b"))
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 4")


@pytest.mark.parametrize("path", ["/compare", "/model", "/?run=nowhere&step=zz"])
def test_deep_links_have_the_frame_and_ask_no_foreign_host(visit, path):
    page = visit().open(path)
    expect(page.get_by_test_id("transport-step")).to_contain_text("step 1")


def test_the_transport_steps_on_other_pages_too(visit):
    tab = visit()
    page = tab.open()
    page.get_by_test_id("stPopoverButton").click()
    page.get_by_test_id("stPageLink").get_by_text("Model", exact=True).click()
    tab.expect_step("step 1")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    page.keyboard.press("ArrowLeft")
    tab.expect_step("step 1")


def test_what_is_read_is_printed_as_the_model_computed_it(visit):
    tab = visit()
    page = tab.open()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    for choose in (None, "token-2"):
        if choose:
            page.get_by_test_id(choose).click()
        expect(page.get_by_test_id("attention-reads")).not_to_contain_text("≈")
        expect(page.get_by_test_id("attention-reads")).to_contain_text(re.compile(r"\d\.\d %"))


def test_a_long_prompt_comes_in_parts(visit):
    tab = visit()
    page = tab.open()
    page.get_by_label("Prompt", exact=True).fill(" ".join(["word"] * 640))
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    del tab.received[:]
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1", timeout=60_000)
    wait_for(page, "[...__miniinfer.history.pooled.values()].some(map => map.to === 640)")
    assert max(tab.received) < 1_000_000
    expect(page.get_by_test_id("token-639")).to_be_visible()
    expect(page.get_by_test_id("token-0")).to_have_count(0)
    page.get_by_test_id("strip-earlier").click()
    expect(page.get_by_test_id("token-0")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2", timeout=60_000)
    expect(page.get_by_test_id("token-640")).to_be_visible()


def test_no_character_of_a_token_is_invisible(visit):
    page = visit().open(live=False)
    shown = page.evaluate(
        """async () => {
          const files = performance.getEntriesByType("resource").map((file) => file.name);
          const part = files.find((name) => /\\/(bundles\\/workspace-\\w+|workspace\\/main)\\.js/.test(name));
          const { visible } = await import(new URL("../shared/tokens.js", part));
          const texts = [" ", "\\u3000", "a\\u2003b", "\\ufe0f", "\\u{E0041}", "\\u202f", "\\u0301", "", "x"];
          return texts.map(visible);
        }"""
    )
    assert shown == ["␣", "<U+3000>", "a<U+2003>b", "<U+FE0F>", "<U+E0041>", "<U+202F>", "◌\u0301", "∅", "x"]
