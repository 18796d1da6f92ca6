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
