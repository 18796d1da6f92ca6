"""A run taken away: the page that steps without a server, the file that opens again, the table as Parquet, the link."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from playwright.sync_api import expect

from miniinfer.figures.offline_page import offline_page
from miniinfer.trace.files.format import load_trace, trace_bytes
from miniinfer.ui.sessions.memory import EXAMPLE
from tests.browser.conftest import READY
from tests.trace.files.recorded import make_run

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e"


@pytest.fixture
def offline(chromium, tmp_path):
    """Opens a page as a file of its own; at the end: no error, and nothing was asked for but the file."""
    contexts, asked, errors = [], [], []

    def open_page(run, cursor, theme="light", size=(1440, 900)):
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(offline_page(run, cursor), encoding="utf-8")
        contexts.append(chromium.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme))
        page = contexts[-1].new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("dialog", lambda dialog: (errors.append("a dialog"), dialog.dismiss()))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=READY)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert [url for url in asked if not re.fullmatch(r"file://.*/page\d\.html", url)] == []


def step(page):
    return page.get_by_test_id("transport-step")


def test_the_page_steps_without_a_server(offline):
    page = offline(load_trace(EXAMPLE), 5)
    expect(step(page)).to_have_text("step 5 / 32")
    expect(page.get_by_test_id("token-9")).to_have_attribute("data-state", "chosen")
    keys = {"ArrowRight": "6 / 32", "Home": "0 / 32", "End": "32 / 32 · ended", "ArrowLeft": "31 / 32"}
    for key, words in keys.items():
        page.keyboard.press(key)
        expect(step(page)).to_have_text(f"step {words}")
    expect(page).to_have_url(re.compile(r"#step=31$"))
    page.goto(page.url.replace("#step=31", "#step=2&panel=kv"))
    page.reload()
    expect(step(page)).to_have_text("step 2 / 32")
    expect(page.get_by_test_id("panel-kv")).to_have_class(re.compile("pointed"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("panel-kv")).not_to_have_class(re.compile("pointed"))
    expect(page.get_by_test_id("candidate-0")).to_be_visible()
    expect(page.get_by_test_id("kv-used")).to_contain_text("323 kB")
    page.get_by_test_id("attention-layer").select_option("3")
    expect(page.get_by_test_id("attention-reads-list")).to_contain_text("%")
    page.get_by_test_id("token-1").click()
    expect(page.get_by_test_id("attention-reads-list")).to_contain_text("The")
    expect(page.get_by_test_id("candidate-3")).to_have_attribute("aria-disabled", "true")
    page.get_by_test_id("about").click()
    size = len(Path(re.sub(r"^file://|#.*$", "", page.url)).read_bytes())
    expect(page.get_by_test_id("about-text")).to_contain_text(f"This file has {size:,} B")


def test_the_page_has_both_themes_and_does_not_scroll(offline):
    page = offline(load_trace(EXAMPLE), 3, "dark", (1280, 720))
    for ground in ("rgb(20, 23, 28)", "rgb(255, 255, 255)"):
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        sizes = "({ scrollHeight: h, scrollWidth: w }) => [h - innerHeight, w - innerWidth]"
        assert page.locator("html").evaluate(sizes) == [0, 0]
        page.get_by_test_id("scheme").click()


def test_hostile_text_in_a_recording_is_text(offline):
    run = make_run(texts=["<b>", "</script>", "\u202e", "'\"", "<!--", "\u2028", *"abcdefgh"])
    object.__setattr__(run.info, "name", HOSTILE)
    object.__setattr__(run.info, "prompt", HOSTILE * 20)
    page = offline(run, 2)
    expect(page.get_by_test_id("token-1")).to_contain_text("</script>")
    assert page.title() == f"{HOSTILE} · MiniInfer"
    page.get_by_test_id("about").click()
    expect(page.get_by_test_id("about-text")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3


def test_a_picture_as_svg_has_its_text_as_text(offline):
    page = offline(make_run(texts=["<b>&", "a\0b", "]]>", "d", "e"]), 2)
    space = "{http://www.w3.org/2000/svg}"
    for panel, images in {"tokens": 0, "attention": 2, "next": 0, "kv": 1, "step": 0}.items():
        page.get_by_test_id(f"{panel}-menu").click()
        with page.expect_download() as download:
            page.get_by_test_id(f"{panel}-save-svg").click()
        root = ElementTree.parse(download.value.path()).getroot()
        assert root.tag == f"{space}svg"
        assert len(root.findall(f"{space}image")) >= images
        assert {each.tag.removeprefix(space) for each in root.iter()} <= {"svg", "rect", "text", "path", "image"}
        words = " ".join(each.text or "" for each in root.iter(f"{space}text"))
        assert "a recorded run of tiny on CPU in float32" in words
        assert "<b>&" in words or panel not in ("tokens", "next")


def test_a_file_goes_out_and_in_and_a_table_is_parquet(visit, tmp_path):
    tab = visit()
    page = tab.open()
    for number in range(2, 4):
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {number}")
    page.get_by_test_id("step-menu").click()
    with page.expect_download() as download:
        page.get_by_test_id("step-save-parquet").click()
    table = pd.read_parquet(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert list(table.iloc[:, 0]) == [1, 2, 3]
    page.get_by_test_id("kv-menu").click()
    page.get_by_test_id("kv-copy-link").click()
    expect(page.get_by_test_id("tokens-fact")).to_contain_text("The link is on the clipboard")

    page.get_by_test_id("transport-runs").click()
    page.get_by_test_id("transport-all-runs").click()
    page.get_by_role("button", name="Take the run in view away").click()
    page.get_by_role("button", name="Make the files").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("Save run file")).click()
    assert download.value.suggested_filename == "miniinfer_the-capital-of-france-is.npz"
    saved = Path(download.value.path())
    run = load_trace(saved)
    assert len(run.steps) == 3
    file = tmp_path / "again.npz"
    file.write_bytes(trace_bytes(run))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Open a run file").click()
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_text("again.npz")).to_be_visible()
    page.get_by_role("button", name="Open the file").click()
    page.get_by_test_id("token-0").wait_for()
    expect(page.get_by_test_id("transport-recorded")).to_be_visible()
    expect(page.get_by_test_id("notice")).to_contain_text("is a recording, made by MiniInfer")
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")

    page.get_by_test_id("transport-runs").click()
    page.get_by_test_id("transport-all-runs").click()
    page.get_by_test_id("stDataFrame").hover()  # the table's own buttons come with the pointer
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("button", name="A list that repeats").click()
    expect(page.get_by_test_id("attention-layer")).to_have_value("17")
    expect(page.get_by_test_id("attention-head")).to_have_value("5")


def test_a_link_marks_its_panel(visit):
    tab = visit()
    page = tab.open("/?panel=next")
    page.get_by_test_id("token-0").wait_for()
    expect(page.get_by_test_id("panel-next")).to_have_class(re.compile("pointed"))
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 2")
    expect(page.get_by_test_id("panel-next")).not_to_have_class(re.compile("pointed"))
    assert page.evaluate("/^.*miniinfer_browser=[\\w-]{12}/.test(document.cookie)")
