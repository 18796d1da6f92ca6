// The keys of the whole page, handled once. Writing and the controls' own keys come first.

import { getKeys } from "./keys.js";

const EDITABLE =
  "input, textarea, select, [contenteditable]:not([contenteditable='false']), [role='slider'], [role='textbox'], [role='combobox'], [role='spinbutton'], [role='menu'], [role='listbox'], dialog";
const PRESSABLE =
  "button, a[href], summary, [role='button'], [role='switch'], [role='tab'], [role='menuitem'], [role='option'], [role='checkbox'], [role='radio']";

const CHOICE = "[data-variant='segmented_control'][role='radio']";

/** Returns the way to stop listening. */
export function listenKeys(bus) {
  const keys = getKeys();
  const onKey = (event) => {
    if (event.defaultPrevented) return;
    const path = event.composedPath().filter((node) => node instanceof Element);
    if (path.some((node) => node.matches(EDITABLE) && !node.matches("[data-keys='step']"))) return;
    if (event.key === " " && path.some((node) => node.matches(PRESSABLE))) return;
    const entry = keys.find(event);
    if (!entry || entry.act(event) === false) return;
    event.preventDefault();
  };
  // A view that was chosen with the mouse keeps the focus, and its group would take the arrows. Who walks through the
  // group with the keyboard keeps it: such a click has no detail.
  const onClick = (event) => {
    const choice = event.detail > 0 && event.target instanceof Element && event.target.closest(CHOICE);
    if (choice) setTimeout(() => choice.contains(document.activeElement) && document.activeElement.blur());
  };
  const forget = keys.add(stepKeys(bus));
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick, true); // on the way down: the choice lets no click rise
  return () => {
    forget();
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick, true);
  };
}

// A held arrow runs over steps that exist, and never piles up steps to be made.
function stepKeys(main) {
  const user = (fn) => (event) => {
    const bus = main.page ?? main;
    bus.player.stop();
    fn(bus, event);
  };
  const held = (bus, { repeat }) => repeat && (bus.target !== null || bus.cursor >= bus.known);
  return {
    first: true,
    title: "Steps",
    keys: [
      { key: "ArrowRight", shown: ["→"], does: "one step on", act: user((bus, event) => held(bus, event) || bus.forward()) },
      { key: "ArrowLeft", shown: ["←"], does: "one step back", act: user((bus) => bus.back()) },
      { key: " ", shown: ["Space"], does: "play, pause", act: ({ repeat }) => repeat || (main.page ?? main).player.toggle() },
      { key: "Home", shown: ["Home"], does: "to the start", act: user((bus) => bus.goto(0)) },
      { key: "End", shown: ["End"], does: "to the last step; from there, run to the end", act: () => toEnd(main.page ?? main) },
    ],
  };
}

/** To the last step; from there, run on to the end. */
export function toEnd(bus) {
  if (bus.cursor < bus.last) {
    bus.player.stop();
    bus.goto(bus.last);
  } else bus.player.start(true);
}
