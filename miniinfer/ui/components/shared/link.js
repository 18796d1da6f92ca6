// A link to a moment: session, run, step and panel. It goes to the clipboard and nowhere else.

/** The address that opens the run and step in view with this panel marked. */
export function linkTo(bus, panel) {
  const url = new URL(location.href);
  if (bus.offline) {
    url.hash = `step=${bus.cursor}&panel=${panel}`;
    return url.href;
  }
  url.searchParams.set("run", bus.run.run);
  url.searchParams.set("step", String(bus.cursor));
  url.searchParams.set("panel", panel);
  url.hash = "";
  return url.href;
}

/** The panel that the address names, or null. */
export function panelOfAddress() {
  const named = new URLSearchParams(location.hash.slice(1)).get("panel") ?? new URL(location.href).searchParams.get("panel");
  return named && /^[a-z-]{1,40}$/.test(named) ? named : null;
}

/** Resolves to true when the text is on the clipboard. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromField(text); // no clipboard without https, but on this machine
  }
}

function copyFromField(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("aria-hidden", "true");
  field.style.setProperty("position", "fixed");
  field.style.setProperty("opacity", "0");
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
