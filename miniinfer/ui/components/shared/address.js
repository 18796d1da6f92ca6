// The address of the page names run and step. It is written here, not by the server: a message about it would make
// Streamlit draw its whole page anew at each step.

const WRITE_AFTER = 100; // ms; browsers refuse too many changes in a row

/** Keeps the address on the bus's run and cursor. Returns the way to stop. */
export function keepAddress(bus) {
  let timer = 0;
  const write = () => {
    timer = 0;
    const run = bus.run?.run;
    if (!run) return;
    const url = new URL(location.href);
    url.searchParams.set("run", run);
    url.searchParams.set("step", String(bus.cursor));
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  };
  const stop = bus.on((dirty) => {
    if (dirty.has("cursor") || dirty.has("run") || dirty.has("data")) timer ||= setTimeout(write, WRITE_AFTER);
  });
  return () => (clearTimeout(timer), stop());
}
