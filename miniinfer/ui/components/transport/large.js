// Large type, for a projector: one class on the page, read by the style sheets of the frame and of every component.

const CLASS = "mi-large";

/** bus: the run, or a batch in its place; both keep the reader's choice in the same store. */
export function setLarge(bus, on) {
  bus.setPref("large", on);
  showLarge(on);
}

export function showLarge(on) {
  if (document.documentElement.classList.contains(CLASS) === Boolean(on)) return;
  document.documentElement.classList.toggle(CLASS, Boolean(on));
  window.dispatchEvent(new Event("resize")); // what measures the window measures again
}
