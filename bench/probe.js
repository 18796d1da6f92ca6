// Runs in the page before its own scripts. Notes, for one input event, when its ask was sent, when the answer came, and when
// the frame that shows the new step was painted. All times are milliseconds of performance.now().

(() => {
  const probe = (window.__bench = { done: null, arm });
  let now = null; // the event being watched

  window.WebSocket = class extends WebSocket {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", ({ data }) => {
        const size = data.byteLength ?? data.size ?? data.length;
        if (now?.sent && size > now.bytes) Object.assign(now, { received: performance.now(), bytes: size });
      });
    }
    send(data) {
      if (now?.start) now.sent ||= performance.now();
      super.send(data);
    }
  };

  /** Watch the next key or click; `done` is a promise of what it led to. The largest message counts as the answer. */
  function arm() {
    const label = find(document, "transport-step");
    const from = stepOf(label);
    now = { from, start: 0, sent: 0, received: 0, bytes: 0, painted: 0 };
    probe.done = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (!now?.start || stepOf(label) === from) return;
        observer.disconnect();
        afterPaint(() => {
          const found = { ...now, painted: performance.now(), step: stepOf(label), ...stepFacts(stepOf(label)) };
          now = null;
          resolve(found);
        });
      });
      observer.observe(label, { childList: true, characterData: true, subtree: true });
    });
  }

  for (const type of ["keydown", "click"]) {
    window.addEventListener(type, (event) => {
      if (now && !now.start && event.isTrusted) now.start = event.timeStamp;
    }, { capture: true });
  }

  // The panels and the transport change in one animation frame, so the next one comes after they were painted; the message
  // behind it comes after that next frame too, should a change ever be made outside an animation frame.
  function afterPaint(then) {
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = then;
      port2.postMessage(null);
    });
  }

  const stepOf = (label) => Number(/^step ([\d,]+)/.exec(label.textContent)?.[1].replaceAll(",", ""));

  // ms: what the step says that the model took. shown: the step panel and the new token's chip are on the page.
  function stepFacts(step) {
    const meta = window.__miniinfer.history.meta[step - 1];
    const shown = find(document, `token-${meta.ctx}`) !== null && find(document, "step-ms") !== null;
    return { ms: meta.ms, context: meta.ctx, shown };
  }

  function find(root, id) {
    const here = root.querySelector(`[data-testid="${id}"]`);
    if (here) return here;
    for (const element of root.querySelectorAll("*")) {
      const inside = element.shadowRoot && find(element.shadowRoot, id);
      if (inside) return inside;
    }
    return null;
  }
})();
