// The canvas, its tip and its two buttons.

import { h, keepKeys } from "../shared/dom.js";
import { find } from "./hover.js";
import { paint } from "./paint.js";
import { arrange } from "./place.js";
import { readFigure } from "./read.js";
import { save } from "./save.js";

export function createView() {
  const canvas = h("canvas", { class: "picture", role: "img", "data-testid": "figure" });
  const lit = h("div", { class: "lit", hidden: true });
  const tip = h("div", { class: "tooltip", popover: "manual", role: "tooltip", "data-testid": "figure-tip" });
  const button = (kind) =>
    h("button", {
      type: "button",
      text: kind.toUpperCase(),
      title: `Save this figure as ${kind.toUpperCase()}`,
      "data-testid": `figure-${kind}`,
      on: { click: () => figure && save(figure, message.name, message.alt, kind) },
    });
  const buttons = h("div", { class: "save", role: "group", "aria-label": "Save this figure" }, button("png"), button("svg"));
  const root = keepKeys(
    h("div", { class: "mi mi-figure", style: { visibility: "hidden" } }, canvas, lit, buttons, tip),
  );
  const view = { root, show, useTheme, stop, onPick: () => {} };
  let message = null;
  let figure = null;
  let theme = null;
  let width = 0;

  function show(bytes) {
    message = JSON.parse(new TextDecoder().decode(bytes));
    figure = readFigure(message.figure);
    canvas.setAttribute("aria-label", message.alt);
    root.style.height = `${figure.layout.height ?? 300}px`;
    root.classList.toggle("picks", Boolean(message.picks));
    leave();
    draw();
  }

  function useTheme(next) {
    if (theme === next) return;
    theme = next;
    draw();
  }

  function draw() {
    width = root.clientWidth;
    if (!figure || !theme || width < 20) return;
    const dpr = Math.max(1, window.devicePixelRatio || 1);
    const height = figure.layout.height ?? 300;
    canvas.width = Math.round(width * dpr);
    canvas.height = Math.round(height * dpr);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(dpr, dpr);
    figure.background = theme.bg;
    arrange(figure, width, context, theme.font);
    paint(context, figure);
    root.dataset.painted = String(Number(root.dataset.painted ?? 0) + 1);
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return find(figure, event.clientX - box.left, event.clientY - box.top);
  };

  function hover(event) {
    const found = figure && place(event);
    if (!found) return leave();
    const { box } = found;
    lit.hidden = false;
    const at = { left: box.x, top: box.y, width: box.width, height: box.height };
    for (const [name, value] of Object.entries(at)) lit.style[name] = `${value}px`;
    tip.replaceChildren(...found.lines.map((text, i) => h("div", { text, class: i ? "" : "first" })));
    if (!tip.matches(":popover-open")) tip.showPopover();
    const [x, y] = [event.clientX, event.clientY];
    const left = x + 16 + tip.offsetWidth > window.innerWidth - 8 ? x - 14 - tip.offsetWidth : x + 16;
    const top = y + 18 + tip.offsetHeight > window.innerHeight - 8 ? y - 14 - tip.offsetHeight : y + 18;
    tip.style.transform = `translate(${Math.round(Math.max(8, left))}px, ${Math.round(Math.max(8, top))}px)`;
  }

  function leave() {
    lit.hidden = true;
    if (tip.matches(":popover-open")) tip.hidePopover();
  }

  function pick(event) {
    const found = message?.picks && figure && place(event);
    if (!found || Array.isArray(found.point)) return;
    view.onPick({ x: found.trace.x[found.point], y: found.trace.y[found.point] });
  }

  function stop() {
    leave();
    watch.disconnect();
  }

  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("click", pick);
  const watch = new ResizeObserver(() => root.clientWidth !== width && draw());
  watch.observe(root);
  return view;
}
