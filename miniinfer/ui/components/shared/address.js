// The address of the page names session, run and step; the session stays the same. It is written here, not by the server: a message about it would make
// Streamlit draw its whole page anew at each step.

const WRITE_AFTER = 100; // ms; browsers refuse too many changes in a row

/** Keeps the address on the bus's run and cursor. Returns the way to stop. */
export function keepAddress(bus) {
  let timer = 0;
  const write = () => {
    timer = 0;
    const run = bus.run?.run;
    if (!run || bus.store.frame?.comes_back) return; // a saved run is about to come back: the address names that one
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
