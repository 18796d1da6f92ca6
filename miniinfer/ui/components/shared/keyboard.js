// Right, Left, Space, Home, End for the whole page, handled once. Writing and the controls' own keys come first.

const EDITABLE =
  "input, textarea, select, [contenteditable]:not([contenteditable='false']), [role='slider'], [role='textbox'], [role='combobox'], [role='spinbutton'], [role='menu'], [role='listbox']";
const PRESSABLE =
  "button, a[href], summary, [role='button'], [role='switch'], [role='tab'], [role='menuitem'], [role='option'], [role='checkbox'], [role='radio']";

const CHOICE = "[data-variant='segmented_control'][role='radio']";

/** Returns the way to stop listening. */
export function listenKeys(bus) {
  const onKey = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.isComposing)
      return;
    const path = event.composedPath().filter((node) => node instanceof Element);
    if (path.some((node) => node.matches(EDITABLE) && !node.matches("[data-keys='step']"))) return;
    if (event.key === " " && path.some((node) => node.matches(PRESSABLE))) return;
    const act = actions(bus.page ?? bus, event.repeat)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  // A view that was chosen with the mouse keeps the focus, and its group would take the arrows. Who walks through the
  // group with the keyboard keeps it: such a click has no detail.
  const onClick = (event) => {
    const choice = event.detail > 0 && event.target instanceof Element && event.target.closest(CHOICE);
    if (choice) setTimeout(() => choice.contains(document.activeElement) && document.activeElement.blur());
  };
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick, true); // on the way down: the choice lets no click rise
  return () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick, true);
  };
}

// A held arrow runs over steps that exist, and never piles up steps to be made.
function actions(bus, repeat) {
  const user = (fn) => () => {
    bus.player.stop();
    fn();
  };
  return {
    ArrowRight: user(() => (repeat && (bus.target !== null || bus.cursor >= bus.known) ? null : bus.forward())),
    ArrowLeft: user(() => bus.back()),
    " ": () => (repeat ? null : bus.player.toggle()),
    Home: user(() => bus.goto(0)),
    End: () => toEnd(bus),
  };
}

/** To the last step; from there, run on to the end. */
export function toEnd(bus) {
  if (bus.cursor < bus.last) {
    bus.player.stop();
    bus.goto(bus.last);
  } else bus.player.start(true);
}
