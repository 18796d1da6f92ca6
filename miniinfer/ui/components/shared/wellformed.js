// Half a character (a lone surrogate, as some programs put on the clipboard) never leaves the page.

/**
 * Streamlit cannot read a message that holds one: it would drop it, and the click that came with it. So it becomes the sign for
 * what cannot be shown before anybody else sees the text. Returns the way to stop.
 */
export function keepWellFormed() {
  const mend = ({ target }) => {
    const kind = target instanceof HTMLTextAreaElement ? HTMLTextAreaElement : target instanceof HTMLInputElement ? HTMLInputElement : null;
    if (!kind || target.value.isWellFormed()) return;
    const at = target.selectionStart;
    // The prototype's own setter: what stands in for it on the element would hide the change from the page.
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(target, target.value.toWellFormed());
    if (at !== null) target.setSelectionRange(at, at);
  };
  window.addEventListener("input", mend, true);
  return () => window.removeEventListener("input", mend, true);
}
