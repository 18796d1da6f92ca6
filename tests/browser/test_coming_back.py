"""Runs survive what happens to a tab and to the server: reload, another tab, a dropped connection, kill -9."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import READY, Visit, app_process, free_port, home_with_models


def tokens(page):
    return page.locator('[data-testid^="token-"]').all_inner_texts()


def step_to(tab, last):
    for step in range(2, last + 1):
        tab.page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}")


def wait_for_address(page, step):
    expect(page).to_have_url(re.compile(rf"[?&]s=[\w-]{{12}}&.*step={step}\b"))


def test_a_reload_brings_the_run_back_at_its_cursor_and_a_second_tab_gets_a_copy(visit):
    tab = visit()
    page = tab.open()
    step_to(tab, 5)
    drawn = page.get_by_test_id("token-9").text_content() or ""
    page.get_by_test_id("candidate-2").click()
    expect(page.get_by_test_id("token-9")).not_to_have_text(drawn)
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 6")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    tab.expect_step("step 4")
    wait_for_address(page, 4)
    before, url = tokens(page), page.url

    page.reload()
    page.get_by_test_id("token-0").wait_for(timeout=120_000)
    tab.expect_step("step 4")
    expect(page.get_by_test_id("notice")).to_contain_text("is back at step 4")
    assert tokens(page) == before
    assert page.url == url
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 5")
    wait_for_address(page, 5)

    other = visit()
    other.page.goto(url)
    other.page.get_by_test_id("token-0").wait_for(timeout=120_000)
    other.expect_step("step 4")
    expect(other.page.get_by_test_id("notice")).to_contain_text("copy of your own")
    assert tokens(other.page) == before
    for _ in range(3):
        other.page.keyboard.press("ArrowRight")
    other.expect_step("step 7")
    assert "s=" in other.page.url
    assert re.search(r"s=([\w-]+)", other.page.url).group(1) != re.search(r"s=([\w-]+)", url).group(1)
    tab.expect_step("step 5")
    assert len(tokens(page)) == len(before), "the first one's run is as it was"


def test_a_server_that_asks_for_its_phrase_again_is_loaded_anew(visit):
    """As one that was started again does: no websocket is let in any more, and the rest is answered with 401."""
    tab = visit()
    sockets = []

    def connect(socket):
        if sockets:
            socket.close()
        else:
            sockets.append((socket, socket.connect_to_server()))

    tab.page.route_web_socket(re.compile("_stcore/stream"), connect)
    page = tab.open()
    page.route("**/_stcore/host-config", lambda route: route.fulfill(status=401, body="Pass phrase"))
    with page.expect_navigation(timeout=READY):
        sockets[0][0].close()
        sockets[0][1].close()
    page.goto("about:blank")
    tab.errors.clear()  # Streamlit says on the console that it was not let in


def test_a_dropped_connection_comes_back_by_itself(visit):
    tab = visit()
    sockets = []
    tab.page.route_web_socket(re.compile("_stcore/stream"), lambda ws: sockets.append((ws, ws.connect_to_server())))
    page = tab.open()
    step_to(tab, 3)
    wait_for_address(page, 3)
    url = page.url
    sockets[-1][0].close()
    sockets[-1][1].close()
    expect(page.get_by_test_id("notice")).to_contain_text("is back at step 3")
    tab.expect_step("step 3")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 4")
    assert page.url.split("&run")[0] == url.split("&run")[0], "the same session"


def test_a_killed_server_loses_no_step_that_was_seen(chromium, model_path, tmp_path):
    home, port = home_with_models(tmp_path), free_port()
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    with app_process(port, home) as (address, app):
        tab = Visit(context.new_page(), address)
        page = tab.open()
        step_to(tab, 4)
        wait_for_address(page, 4)
        page.wait_for_timeout(700)  # what was seen is in the file a moment later
        page.keyboard.press("Space")  # play: it is killed in the middle of stepping
        expect(page.get_by_test_id("transport-step")).to_have_text(re.compile(r"^step ([6-9]|\d\d)\b"))
        app.kill()
        app.wait()
        before, url = tokens(page), page.url
    page.close()
    with app_process(port, home) as (address, _):
        tab = Visit(context.new_page(), address)
        page = tab.page
        page.goto(url)
        expect(page.get_by_test_id("notice")).to_contain_text("comes back as soon as its model", timeout=60_000)
        expect(page.get_by_test_id("notice")).to_contain_text("is back at step", timeout=120_000)
        expect(page.get_by_test_id("transport-step")).to_have_text(re.compile(r"^step ([4-9]|\d\d)\b"))
        after = tokens(page)
        # The kill falls between two steps of a run that plays: the file may hold one that no picture showed yet,
        # or lack the last that was shown; what both have is the same.
        both = min(len(before), len(after))
        assert after[:both] == before[:both]
        assert len(after) >= 9, "five tokens of the prompt and those of the four steps that were seen to be saved"
        assert tab.errors == []
    context.close()


NEW_RUN_AND_TWO_STEPS = """() => {
  const buttons = [...document.querySelectorAll('[data-testid="stSidebar"] button')];
  buttons.find((button) => button.textContent.trim() === "New run").click();
  const press = () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  press();
  press();
}"""


def test_a_step_that_is_asked_for_before_the_new_run_is_seen_is_a_step_of_it(visit):
    """Click and keys in one task of the browser, so that no picture can come in between."""
    tab = visit()
    page = tab.open()
    page.get_by_role("spinbutton", name="New tokens").fill("3")
    page.get_by_label("Prompt", exact=True).fill("Once upon a time")
    page.evaluate(NEW_RUN_AND_TWO_STEPS)
    expect(page.get_by_test_id("token-0")).to_contain_text("Once")
    tab.expect_step("step 2")
    page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()  # away from the field
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("transport-step")).to_have_text(re.compile("^step 3 / 3"))
    page.get_by_label("Prompt", exact=True).fill("The end of it")
    page.evaluate(NEW_RUN_AND_TWO_STEPS)  # the run that is there has ended
    expect(page.get_by_test_id("token-0")).to_contain_text("The")
    tab.expect_step("step 2")
    wait_for_address(page, 2)
    page.goto(page.url.replace("/?", "/cost?"))
    expect(page.locator(".st-key-frame_note")).to_contain_text("is back at step 2")
    note, body = (page.locator(f".st-key-{key}").bounding_box() for key in ("frame_note", "page_body"))
    assert note["x"] + note["width"] <= 1440, "its end is seen"
    bottom = page.get_by_test_id("stMain").evaluate("e => { e.scrollTop = e.scrollHeight; return e.scrollTop; }")
    assert body["y"] + body["height"] - bottom <= 901, "and so is the end of the page below it"
