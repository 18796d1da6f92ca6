// One bar a step: how long each took. A click goes there.

import * as format from "../shared/format.js";
import { createCanvas, pointIn, setFont } from "./canvas.js";

const SIZES = [16, 32, 64, 128, 256, 512];

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
    const metas = view.history.meta.slice(0, view.history.offered);
    const room = SIZES.find((size) => size >= metas.length) ?? metas.length;
    const planned = view.info.max_new + 1;
    const slots = Math.max(metas.length, Math.min(room, Math.max(planned, 12)));
    // A prefill can be many times a decode step: the scale follows the decode steps, and a bar that leaves it says its time.
    const decode = metas
      .filter((meta) => meta.phase === "decode")
      .map((meta) => meta.ms)
      .sort((a, b) => a - b);
    const top =
      decode.length >= 3 ? decode[Math.floor(decode.length * 0.95)] * 1.35 : Math.max(...metas.map((meta) => meta.ms));
    g = { n: metas.length, w: canvas.width / slots, top };
    const floor = canvas.height - 1;
    const high = canvas.height - 16;
    context.fillStyle = theme.line;
    context.fillRect(0, floor, canvas.width, 1);
    metas.forEach((meta, i) => {
      const size = Math.max(1, high * Math.min(1, meta.ms / top));
      context.fillStyle = i + 1 === view.cursor ? theme.blue : meta.phase === "prefill" ? theme.text2 : theme.line2;
      context.fillRect(i * g.w, floor - size, Math.max(1, Math.min(g.w - (g.w > 3 ? 1 : 0), 24)), size);
    });
    setFont(context, `11px ${theme.font}, sans-serif`);
    context.textBaseline = "top";
    context.fillStyle = theme.text2;
    context.fillText(
      `ms by step, up to ${format.ms(top)}${Math.max(...metas.map((meta) => meta.ms)) > top ? `; taller bars are cut (prefill ${format.ms(metas[0].ms)})` : ""}`,
      0,
      0,
    );
    hover();
  }

  function hover() {
    const context = canvas.start("over");
    const { view, theme } = last;
    const at = bus.hover;
    if (!context || !g || !at || at.pos === null || at.pos === undefined) return;
    const step = at.step ?? view.history.stepOfRow[at.pos];
    if (!step || step > g.n) return;
    context.strokeStyle = theme.text;
    context.strokeRect((step - 1) * g.w - 0.5, 14.5, Math.max(2, Math.min(g.w, 25)), canvas.height - 15);
  }

  return { root: canvas.root, paint, hover, stop: canvas.stop };
}
