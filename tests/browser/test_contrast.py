"""All text stands out from what is behind it, at least 4.5 : 1, in both themes, chips coloured by probability too."""

from pathlib import Path

import pytest

MEASURE = Path(__file__).with_name("contrast.js").read_text("utf-8").split("\n", 1)[1].strip().rstrip(";")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_of_the_workspace_can_be_read(visit, theme):
    tab = visit(theme=theme)
    page = tab.open()
    for step in (2, 3, 4):
        page.keyboard.press("ArrowRight")
        tab.expect_step(f"step {step}")
    page.wait_for_timeout(500)
    assert page.evaluate(MEASURE) == []
    page.get_by_test_id("strip-colour").click()
    page.wait_for_timeout(500)
    assert page.evaluate(MEASURE) == []
    page.keyboard.press("Home")
    page.wait_for_timeout(500)
    assert page.evaluate(MEASURE) == []


def test_the_measure_sees_what_cannot_be_read(visit):
    page = visit().open(live=False)
    page.get_by_test_id("token-0").evaluate("chip => (chip.style.color = chip.style.background = '#fde725')")
    assert page.evaluate(MEASURE)
