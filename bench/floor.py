"""What Streamlit takes from click to paint: a fragment with one button and one line of text, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser

from tests.browser.conftest import READY, running_app

SCRIPT = """
import gc
import streamlit as st

@st.fragment
def counter():
    st.session_state.n = st.session_state.get("n", 0) + st.button("step")
    st.text(f"count {st.session_state.n}")

counter()
gc.collect()
gc.freeze()  # as the app does once its model is loaded
"""
# The same ends as probe.js has: the browser's own stamp of the click, and a message behind the frame after the change.
PROBE = """() => {
  let start = 0;
  window.addEventListener("click", (event) => { start = event.timeStamp; }, { capture: true, once: true });
  const text = document.querySelector('[data-testid="stText"]');
  window.__floor = new Promise((done) => {
    const observer = new MutationObserver(() => {
      observer.disconnect();
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => done(performance.now() - start);
        port2.postMessage(null);
      });
    });
    observer.observe(text, { childList: true, characterData: true, subtree: true });
  });
}"""
WARM_UP = 3


def empty_fragment_ms(browser: Browser, events: int) -> list[float]:
    """Milliseconds from click to painted of `events` clicks on a page whose fragment does nothing."""
    chance = random.Random(0)
    with TemporaryDirectory() as folder:
        script = Path(folder) / "floor.py"
        script.write_text(SCRIPT, encoding="utf-8")
        with running_app(script=script) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            page.get_by_text("count 0").wait_for(timeout=READY)
            times = []
            for _ in range(WARM_UP + events):
                page.wait_for_timeout(300 + 100 * chance.random())
                page.evaluate(PROBE)
                page.get_by_role("button", name="step").click()
                times.append(float(page.evaluate("window.__floor")))
            page.close()
    return times[WARM_UP:]
