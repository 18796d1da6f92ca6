// Sends an ask in the same task as the input that led to it.

/**
 * `trigger` as Streamlit gave it to a component, without its wait. Streamlit collects what is triggered and sends it from a
 * timer of 0 ms; after an input Chromium holds timers back until a frame was shown, some 15 ms. Within this one call such a
 * timer is a microtask: it still runs after everything that is triggered here, and nothing else is touched.
 */
export function promptly(trigger) {
  return (name, value) => {
    const timer = window.setTimeout;
    window.setTimeout = (fn, delay, ...rest) => {
      if (delay || typeof fn !== "function") return timer.call(window, fn, delay, ...rest);
      queueMicrotask(() => fn(...rest));
      return 0;
    };
    try {
      trigger(name, value);
    } finally {
      window.setTimeout = timer;
    }
  };
}
