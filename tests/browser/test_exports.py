"""A panel's menu: its table, the table as CSV, the drawing as PNG; and keys pressed before the workspace is there."""

import csv
import io
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import READY

PANELS = ("tokens", "attention", "next", "kv", "step")
SIGNS = str.maketrans({"␣": " ", "↵": "\n"})
READ_TABLE = """table => [...table.querySelectorAll('tr')].filter(row => !row.hidden).map(
    row => [...row.children].map(cell => cell.innerText.replace('↓', '').replace('↑', '').trim()))"""


def choose(page: Page, panel: str, what: str) -> None:
    page.get_by_test_id(f"{panel}-menu").click()
    page.get_by_test_id(f"{panel}-{what}").click()


def saved(page: Page, panel: str, what: str) -> Path:
    """The file that the menu's item `what` gives."""
    page.get_by_test_id(f"{panel}-menu").click()
    with page.expect_download() as download:
        page.get_by_test_id(f"{panel}-{what}").click()
    assert download.value.suggested_filename.startswith("miniinfer_")
    return Path(download.value.path())


def read_picture(path: Path) -> Image.Image:
    return Image.open(io.BytesIO(path.read_bytes())).convert("RGB")


def csv_rows(page: Page, panel: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(saved(page, panel, "save-csv").read_text("utf-8"), newline="")))


def table_rows(page: Page, panel: str) -> list[list[str]]:
    return page.get_by_test_id(f"{panel}-twin").locator("table").evaluate(READ_TABLE)


def same(shown: str, saved_cell: str) -> bool:
    """A number is shown rounded; a token is shown with signs for blanks and without the guard against formulas."""
    if saved_cell == "":
        return shown in ("", "–", "∅")
    try:
        number = float(saved_cell)
    except ValueError:
        saved_cell = re.sub(r"^'(?=[=+\-@\t\r\n])", "", saved_cell)
        return shown.translate(SIGNS).strip() == saved_cell.strip() or shown.translate(SIGNS) == saved_cell
    digits = shown.replace(",", "").removeprefix("< ")
    if shown.startswith("< "):
        return 0 < number < float(digits)
    decimals = len(digits.partition(".")[2])
    return abs(float(digits) - number) <= 0.51 * 10**-decimals


def steps(tab, count: int) -> None:
    for _ in range(count):
        tab.page.keyboard.press("ArrowRight")
    tab.expect_step(f"step {1 + count}")


@pytest.mark.parametrize("panel", PANELS)
def test_table_and_csv_say_the_same(visit, panel):
    tab = visit()
    page = tab.open()
    steps(tab, 3)
    choose(page, panel, "show-table")
    expect(page.get_by_test_id(f"{panel}-twin").locator("table")).to_be_visible()
    page.wait_for_timeout(500)  # what only the table needs arrives
    shown, rows = table_rows(page, panel), csv_rows(page, panel)
    assert len(shown) == len(rows) > 4
    for there, here in zip(shown[0], rows[0], strict=True):
        assert re.sub(r" \(computed\)| \(measured\)", "", here) == there
    for there, here in zip(shown[1:], rows[1:], strict=True):
        assert len(there) == len(here)
        for left, right in zip(there, here, strict=True):
            assert same(left, right), (left, right)


def test_the_table_of_candidates_is_what_the_drawing_shows(visit):
    page = visit().open()
    drawn = [page.get_by_test_id(f"candidate-{i}").get_attribute("aria-label") or "" for i in range(20)]
    choose(page, "next", "show-table")
    rows = table_rows(page, "next")[1:]
    assert len(rows) == 21
    assert rows[-1][1].endswith("others")
    for row, label in zip(rows, drawn, strict=False):
        token, used = re.match(r"“(.*)”, used ([\d.<> ]+)", label).groups()  # type: ignore[union-attr]
        assert row[1] == token or token.endswith("…")
        if not used.startswith(("<", ">")):
            assert abs(float(row[2]) - float(used)) <= 0.06
    assert sum(float(row[2]) for row in rows if not row[2].startswith("<")) == pytest.approx(100, abs=0.3)


def test_the_table_follows_the_step_and_the_drawing_comes_back(visit):
    tab = visit()
    page = tab.open()
    choose(page, "tokens", "show-table")
    expect(page.get_by_test_id("tokens-twin").locator("tbody tr")).to_have_count(6)
    expect(page.get_by_test_id("strip")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_test_id("tokens-twin").locator("tbody tr")).to_have_count(7)
    expect(page.get_by_test_id("tokens-twin").locator("tr.now")).to_contain_text("chosen")
    page.get_by_test_id("tokens-table-close").click()
    expect(page.get_by_test_id("strip")).to_be_visible()


def test_a_click_on_a_head_sorts_and_the_csv_has_that_order(visit):
    tab = visit()
    page = tab.open()
    steps(tab, 4)
    choose(page, "step", "show-table")
    head = page.get_by_test_id("step-twin").locator("th").filter(has_text=re.compile(r"^time"))
    for direction, reverse in (("descending", True), ("ascending", False)):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", direction)
        times = [float(row[1]) for row in table_rows(page, "step")[1:]]
        assert times == sorted(times, reverse=reverse)
    assert [float(row[1]) for row in csv_rows(page, "step")[1:]] == pytest.approx(times, abs=0.006)


def test_at_most_five_hundred_rows_are_drawn_and_the_csv_has_all(visit):
    tab = visit()
    page = tab.open()
    page.get_by_label("Prompt", exact=True).fill(" ".join(["word"] * 40))
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    page.get_by_test_id("panel-tokens").get_by_text("Tokens", exact=True).click()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1")
    choose(page, "kv", "show-table")
    expect(page.get_by_test_id("kv-twin").locator("tbody tr")).to_have_count(500)
    expect(page.get_by_test_id("kv-twin").get_by_test_id("table-note")).to_contain_text("500 of 1,200")
    assert len(csv_rows(page, "kv")) == 1201


def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe(visit):
    tab = visit()
    page = tab.open()
    page.get_by_label("Prompt", exact=True).fill('=1+1, "a"')
    page.get_by_role("button", name="New run").click()
    tab.expect_step("step 0")
    tokens = [row[1] for row in csv_rows(page, "tokens")[1:]]
    assert tokens[0] == "'="
    assert "'+" in tokens
    assert "".join(token.removeprefix("'") for token in tokens) == '=1+1, "a"'


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_have_size_ground_and_ink(visit, theme):
    tab = visit(theme=theme)
    page = tab.open()
    steps(tab, 2)
    for panel in PANELS:
        picture = read_picture(saved(page, panel, "save-png"))
        assert picture.width > 390, panel
        assert picture.height > 90, panel
        ground = picture.getpixel((0, 0))
        assert isinstance(ground, tuple)
        assert (sum(ground) > 600) == (theme == "light")
        colours = picture.getcolors(2**24) or []
        inked = sum(count for count, colour in colours if colour != ground)
        assert inked > 0.01 * picture.width * picture.height, panel
        title = picture.crop((18, 18, 200, 36)).getcolors(2**16) or []
        assert len(title) > 8, f"{panel}: no title"
    canvas = page.get_by_test_id("kv-canvas").bounding_box()
    picture = read_picture(saved(page, "kv", "save-png"))
    assert canvas is not None
    assert picture.width == round(canvas["width"]) + 36


def test_a_picture_can_be_saved_while_the_table_is_shown(visit):
    tab = visit()
    page = tab.open()
    steps(tab, 1)
    choose(page, "attention", "show-table")
    colours = read_picture(saved(page, "attention", "save-png")).getcolors(2**24)
    assert colours is not None
    assert len(colours) > 60


def test_the_menu_works_by_keys_and_escape_closes_only_the_menu(visit):
    tab = visit()
    page = tab.open()
    page.get_by_test_id("attention-fill").click()
    menu, items = page.get_by_test_id("attention-menu"), page.get_by_test_id("attention-menu-list")
    menu.focus()
    page.keyboard.press("Enter")
    expect(items).to_be_visible()
    expect(menu).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_test_id("attention-show-table")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_test_id("attention-save-csv")).to_be_focused()
    page.keyboard.press("ArrowRight")
    tab.expect_step("step 1")
    page.keyboard.press("Escape")
    expect(items).to_be_hidden()
    expect(page.get_by_test_id("panel-kv")).to_be_hidden()  # the panel still fills the window
    menu.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("attention-twin")).to_be_visible()
    menu.click()
    expect(items).to_be_visible()
    menu.click()
    expect(items).to_be_hidden()
    menu.click()
    page.get_by_test_id("transport-step").click()
    expect(items).to_be_hidden()


@pytest.mark.parametrize(("keys", "step"), [(["ArrowRight"] * 3, 4), (["ArrowLeft"], 0)])
def test_a_key_before_the_workspace_is_there_is_not_lost(visit, keys, step):
    tab = visit()
    page = tab.page
    held: list[Route] = []
    page.route(re.compile(r"/workspace(/main|-\w+)\.js"), lambda route: held.append(route))
    page.goto(tab.address)
    page.get_by_test_id("transport").wait_for()
    page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
    tab.expect_step("step 1")
    assert page.get_by_test_id("workspace").count() == 0
    for key in keys:
        page.keyboard.press(key)
    for route in list(held):
        route.continue_()
    page.get_by_test_id("token-0").wait_for()
    tab.expect_step(f"step {step}")
    page.wait_for_timeout(500)
    tab.expect_step(f"step {step}")


def test_a_file_that_is_asked_for_at_once_has_all_its_numbers(visit):
    tab = visit()
    page = tab.open()
    menu, item = (page.get_by_test_id(f"tokens-{name}").element_handle() for name in ("menu", "save-csv"))
    with page.expect_download() as download:  # in one task, so that no answer comes between
        page.evaluate("([menu, item]) => { menu.click(); item.click(); }", [menu, item])
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"), newline="")))
    found = [row["model's probability, % (computed)"] for row in rows]
    assert found[0] == "", "nothing stands before the first token"
    assert all(float(share) > 0 for share in found[1:])
