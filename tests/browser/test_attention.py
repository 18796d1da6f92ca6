"""The attention page in the browser: it follows the transport, a square chooses its head, pictures can be saved."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from playwright.sync_api import Locator, Page, expect

SVG = "{http://www.w3.org/2000/svg}"


def view(page: Page, name: str) -> None:
    page.locator(".st-key-attention_view").get_by_role("radio", name=name, exact=True).click()


def head(page: Page, words: str) -> None:
    expect(page.locator(".st-key-attention_head_line")).to_contain_text(re.compile(words), timeout=30_000)


def painted(page: Page, key: str) -> Locator:
    """The figure of this key, once it is drawn."""
    expect(page.locator(f".st-key-{key} [data-painted]")).to_be_visible(timeout=30_000)
    return page.locator(f".st-key-{key}")


def test_the_page_follows_the_transport_and_saves_its_pictures(visit, tmp_path: Path):
    tab = visit()
    page = tab.open("/attention")
    head(page, r"at 4: .* of its weight is on the first token")
    page.keyboard.press("ArrowRight")
    head(page, r"at 5:")
    figure = painted(page, "attention_maps")
    figure.hover(position={"x": 300, "y": 150})
    expect(figure.get_by_test_id("figure-tip")).to_contain_text(re.compile(r"query .*key .*\d\.\d{4}"))
    position = page.get_by_test_id("stMain").get_by_role("spinbutton", name="Query position")
    position.fill("2")
    position.press("Enter")
    head(page, r"at 2:")
    page.locator(".st-key-attention_view").click(position={"x": 1, "y": 1})
    tab.expect_step("step 2")
    page.get_by_test_id("transport-forward").click()
    tab.expect_step("step 3")
    head(page, r"at 2:")
    for kind in ("png", "svg"):
        figure.hover(position={"x": 300, "y": 150})
        with page.expect_download() as saved:
            figure.get_by_test_id(f"figure-{kind}").click()
        assert saved.value.suggested_filename == f"attention_maps.{kind}"
        saved.value.save_as(tmp_path / kind)
    assert (tmp_path / "png").read_bytes().startswith(b"\x89PNG")
    svg = ElementTree.parse(tmp_path / "svg").getroot()
    words = [el.text or "" for el in svg.iter(f"{SVG}text")]
    assert "1  q · k" in words
    assert "4  softmax: weights" in words
    assert len(list(svg.iter(f"{SVG}image"))) == 8, "cells and a colour scale for each of the four"
    with page.expect_download() as saved:
        page.locator(".st-key-attention_row_csv button").click()
    saved.value.save_as(tmp_path / "row.csv")
    lines = (tmp_path / "row.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("key,token,q·k")
    assert len(lines) == 8


def test_a_click_on_a_square_chooses_the_head_and_a_knock_out_leaves_the_run(visit):
    tab = visit()
    page = tab.open("/attention")
    view(page, "All heads")
    page.get_by_role("radio", name="a text that repeats").click()
    expect(page.get_by_text(re.compile(r"On 40 tokens, twice: \d+ induction"))).to_be_visible(timeout=60_000)
    squares = painted(page, "attention_heads_map")
    box = squares.bounding_box()
    assert box is not None
    tip = squares.get_by_test_id("figure-tip")
    for x in range(40, int(box["width"]), 8):  # along the row of head 6, until the square of layer 18 is met
        page.mouse.move(box["x"] + x, box["y"] + box["height"] * 0.62)
        if "layer 18, head 6" in (tip.text_content() or ""):
            break
    expect(tip).to_contain_text("layer 18, head 6")
    page.mouse.down()
    page.mouse.up()
    head(page, "^Layer 18, head 6 reads")
    view(page, "Knock out")
    words = page.get_by_test_id("stMain").get_by_text(re.compile("Without head 6 of layer 18, .* goes from"))
    expect(words).to_be_visible(timeout=30_000)
    painted(page, "attention_each_bars")
    tab.expect_step("step 1")
    page.get_by_test_id("transport-runs").click()
    expect(page.get_by_test_id("transport-run")).to_have_count(1)


def test_no_view_is_cut_off_at_1280_by_720(visit):
    tab = visit(1280, 720, "dark")
    page = tab.open("/attention")
    for name in ("Scores to weights", "Value mix", "RoPE", "All heads", "Knock out"):
        view(page, name)
        expect(page.locator(".st-key-attention [data-painted]").first).to_be_visible(timeout=30_000)
        widths = page.locator(".st-key-page_body").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert widths[0] <= widths[1], name
