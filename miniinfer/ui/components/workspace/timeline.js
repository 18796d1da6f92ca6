// One bar a step: how long each took. A click goes there.

import { explorable, spoken } from "../shared/explore.js";
import * as format from "../shared/format.js";
import { createCanvas, pointIn } from "../shared/canvas.js";
import { paintTimes } from "./steptimes.js";

export function createTimeline(bus) {
  const canvas = createCanvas({ label: "Time of each step", testid: "step-timeline", className: "timeline" });
  let g = null;
  let last = { view: null, theme: null };

  canvas.onResize = () => last.theme && paint(last.view, last.theme);
  canvas.root.addEventListener("pointermove", (event) => {
    const step = stepAt(event);
    const meta = step && last.view.history.meta[step - 1];
    if (!meta) return bus.setHover(null);
    const lines = [
      ["step", `${step}, ${meta.phase}`],
      ["time", format.ms(meta.ms)],
      ["tokens through", format.count(meta.n)],
    ];
    bus.setHover({
      src: "timeline",
      key: `time:${step}`,
      pos: meta.ctx - 1,
      step,
      lines,
      x: event.clientX,
      y: event.clientY,
    });
  });
  canvas.root.addEventListener("pointerleave", () => bus.setHover(null));
  const unbind = explorable(canvas.root, {
    grid: () => g && { columns: g.n, rows: 1, start: [Math.max(0, bus.cursor - 1), 0], at: (i) => [(i + 0.5) * g.w, canvas.height / 2] },
    said: () => spoken(bus.hover),
  });
  canvas.root.addEventListener("click", (event) => {
    const step = stepAt(event);
    if (!step) return;
    bus.player.stop();
    bus.goto(step);
  });

  function stepAt(event) {
    if (!g) return null;
    const step = 1 + Math.floor(pointIn(event, canvas.root)[0] / g.w);
    return step >= 1 && step <= g.n ? step : null;
  }

  function paint(view, theme) {
    last = { view, theme };
    const context = canvas.start("base");
    g = null;
    if (!context || !view || !view.history.offered) return;
    g = paintTimes(context, view, theme, canvas.width, canvas.height);
    hover();
  }

  function hover() {
    const { view, theme } = last;
    const at = bus.hover;
    const step = g && at && at.pos !== null && at.pos !== undefined ? (at.step ?? view.history.stepOfRow[at.pos]) : 0;
    if (!step || step > g.n) return canvas.clear("over");
    const context = canvas.start("over");
    if (!context) return;
    context.strokeStyle = theme.text;
    context.strokeRect((step - 1) * g.w - 0.5, 14.5, Math.max(2, Math.min(g.w, 25)), canvas.height - 15);
  }

  return { root: canvas.root, paint, hover, stop: () => (canvas.stop(), unbind()) };
}
