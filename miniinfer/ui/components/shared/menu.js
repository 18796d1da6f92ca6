// A button and the list it opens: arrows walk, Esc and a click elsewhere close. Esc closes nothing else.

import { focused, setAttr, zoomOf } from "./dom.js";

/** list: an element with popover="auto" and role="menu" whose items are buttons. Returns the way to stop. */
export function connectMenu(button, list) {
  button.popoverTargetElement = list; // so that a click on the button of an open list closes it
  setAttr(button, "aria-haspopup", "menu");
  setAttr(button, "aria-expanded", "false");

  const items = () => [...list.querySelectorAll("button")].filter((item) => !item.hidden);
  // The browser gives the focus to what is marked; done later, a quick second key would still meet the button.
  list.addEventListener("beforetoggle", () => {
    const first = list.querySelector("[aria-checked='true']") ?? items()[0];
    for (const item of items()) setAttr(item, "autofocus", item === first ? "" : null);
  });
  list.addEventListener("toggle", (event) => {
    const open = event.newState === "open";
    setAttr(button, "aria-expanded", String(open));
    if (open) place();
    else if (keyed && (!focused() || list.contains(focused()))) button.focus(); // in a shadow root the browser gives it to nobody
  });
  let keyed = false; // the last press in the list was one of a key
  list.addEventListener("pointerdown", () => (keyed = false));
  list.addEventListener("keydown", (event) => {
    keyed = true;
    if (event.key === "Escape") {
      event.preventDefault();
      return close();
    }
    const all = items();
    const here = all.indexOf(list.getRootNode().activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Tab") close();
    if (to === undefined) return;
    event.preventDefault();
    all[(to + all.length) % all.length]?.focus();
  });
  window.addEventListener("resize", close);

  function close() {
    if (list.matches(":popover-open")) list.hidePopover();
  }

  // Below the button, or above where there is no room.
  function place() {
    const zoom = zoomOf(list);
    const [box, high, wide] = [inPixelsOf(button, zoom), window.innerHeight / zoom, window.innerWidth / zoom];
    const below = high - box.bottom - 16;
    const above = box.top - 16;
    const up = list.offsetHeight > below && above > below;
    list.style.maxHeight = `${up ? above : below}px`;
    list.style.left = `${Math.max(8, Math.min(box.left, wide - list.offsetWidth - 8))}px`;
    list.style.top = `${up ? box.top - 4 - Math.min(list.offsetHeight, above) : box.bottom + 4}px`;
  }

  return () => window.removeEventListener("resize", close);
}

function inPixelsOf(el, zoom) {
  const { left, top, bottom } = el.getBoundingClientRect();
  return { left: left / zoom, top: top / zoom, bottom: bottom / zoom };
}
