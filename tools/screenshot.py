"""Make the README's picture from the running app: `python -m tools.screenshot`. Needs the test requirements."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from miniinfer.cli.browser import find_chromium
from tests.browser.conftest import ARGUMENTS, READY, running_app

OUT = Path(__file__).parents[1] / "docs" / "workspace.png"
STEPS = 9


def main() -> None:
    with running_app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(address)
        page.get_by_test_id("token-0").wait_for(timeout=READY)
        page.get_by_test_id("transport-recorded").wait_for(state="hidden", timeout=READY)
        for step in range(2, STEPS + 1):
            page.keyboard.press("ArrowRight")
            expect(page.get_by_test_id("transport-step")).to_contain_text(f"step {step}")
        page.wait_for_timeout(1000)  # motion ends
        page.screenshot(path=OUT)
        browser.close()
    print(f"{OUT.name}: {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
