// Streamlit's popovers, the page menu before all, for the keyboard: they open at the end of the document and leave the focus behind.

import { focused } from "../shared/dom.js";

const BUTTON = "[data-testid='stPopoverButton']";
const BODY = "[data-testid='stPopoverBody']";
const LINK = "[data-testid='stPageLink-NavLink']";
const MENU = `[class*='st-key-page_menu'] ${BUTTON}`;
const FOCUSABLE = "a[href], button:not(:disabled), input:not(:disabled), select, textarea, [tabindex='0']";
const PATIENCE = 600; // frames until a page must have come

/** Returns the way to stop. */
export function keepPopovers() {
  let opener = null; // the button of the one that was opened by a key
  const menu = () => document.querySelector(MENU);
  const body = () => document.querySelector(BODY);
  const inside = () => [...(body()?.querySelectorAll(FOCUSABLE) ?? [])].filter((el) => el.checkVisibility());

  const onClick = (event) => {
    const at = event.target instanceof Element ? event.target : null;
    const button = at?.closest(BUTTON);
    const byKey = event.detail === 0;
    if (button && byKey && button.getAttribute("aria-expanded") !== "true") {
      opener = button;
      soon(() => enter(button));
    }
    const link = at?.closest(LINK);
    if (!link) return;
    const name = link.textContent.trim();
    if (name === nameOf(menu())) setTimeout(() => menu()?.getAttribute("aria-expanded") === "true" && menu().click()); // it would stay open
    if (byKey) soon(() => !body() && name === nameOf(menu()) && (focused() || menu().focus(), true));
  };

  function enter(button) {
    const here = inside().find((el) => el.matches(LINK) && el.textContent.trim() === nameOf(button));
    const first = here ?? inside()[0];
    first?.focus();
    return Boolean(first);
  }

  const onKey = (event) => {
    const at = event.target instanceof Element && event.target.closest(BODY) ? event.target : null;
    if (!at || event.defaultPrevented) return;
    const all = inside();
    const here = all.indexOf(at);
    if (event.key === "Escape") soon(() => !body() && (opener && !focused() && opener.focus(), true));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && at.matches(LINK)) {
      event.preventDefault();
      all[(here + step + all.length) % all.length].focus();
    }
    // Beyond either end lies the button, from where the page goes on.
    if (event.key === "Tab" && opener?.isConnected && here === (event.shiftKey ? 0 : all.length - 1)) {
      event.preventDefault();
      opener.focus();
    }
  };

  document.addEventListener("click", onClick, true);
  document.addEventListener("keydown", onKey, true);
  return () => {
    document.removeEventListener("click", onClick, true);
    document.removeEventListener("keydown", onKey, true);
  };
}

const nameOf = (button) => button?.querySelector("[data-testid='stMarkdownContainer']")?.textContent.trim();

function soon(done, frames = PATIENCE) {
  requestAnimationFrame(() => done() || frames <= 0 || soon(done, frames - 1));
}
