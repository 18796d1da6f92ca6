// N, B, L, U: letters, because the arrows move the run's own cursor.

const EDITABLE = "input, textarea, select, [contenteditable]:not([contenteditable='false']), [role='combobox'], [role='textbox']";

/** Returns the way to stop listening. */
export function listenStageKeys(moves, ready) {
  const onKey = (event) => {
    if (!ready() || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    const path = event.composedPath().filter((node) => node instanceof Element);
    if (path.some((node) => node.matches(EDITABLE))) return;
    const key = event.key.toLowerCase();
    const move = key === "b" && event.shiftKey ? moves.start : { n: moves.step, b: moves.back, l: moves.layer, u: moves.run }[key];
    if (!move || (event.shiftKey && key !== "b")) return;
    event.preventDefault();
    move();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
