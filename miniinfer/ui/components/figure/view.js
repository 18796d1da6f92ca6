// The canvas, its tip and its two buttons.

import { pointIn } from "../shared/canvas.js";
import { h, keepKeys, zoomOf } from "../shared/dom.js";
import { explorable } from "../shared/explore.js";
import { createTooltipBox } from "../shared/tooltip.js";
import { find } from "./hover.js";
import { paint } from "./paint.js";
import { arrange } from "./place.js";
import { readFigure } from "./read.js";
import { save } from "./save.js";
import { walkOf } from "./walk.js";

export function createView() {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const lit = h("div", { class: "lit", hidden: true });
  const drawing = h("div", { class: "picture", "data-testid": "figure" }, canvas, lit);
  const words = h("div", {});
  const tip = createTooltipBox("figure-tip", words);
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
    h("div", { class: "mi mi-figure", style: { visibility: "hidden" } }, drawing, buttons, tip.root),
  );
  const view = { root, show, useTheme, stop, onPick: () => {} };
  let message = null;
  let figure = null;
  let theme = null;
  let width = 0;
  let pointed = null; // where the pointer or the keyboard is, in px of the drawing

  function show(bytes) {
    message = JSON.parse(new TextDecoder().decode(bytes));
    figure = readFigure(message.figure);
    drawing.setAttribute("aria-label", message.alt);
    root.style.height = `${figure.layout.height ?? 300}px`;
    root.classList.toggle("picks", Boolean(message.picks));
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
    const dpr = Math.max(1, (window.devicePixelRatio || 1) * zoomOf(root));
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
    hover(); // what is pointed at may be another value now
    root.dataset.painted = String(Number(root.dataset.painted ?? 0) + 1);
  }

  function hover() {
    const found = figure && pointed && find(figure, ...pointed);
    if (!found) return hide();
    const { box } = found;
    lit.hidden = false;
    const at = { left: box.x, top: box.y, width: box.width, height: box.height };
    for (const [name, value] of Object.entries(at)) lit.style[name] = `${value}px`;
    words.replaceChildren(...found.lines.map((text, i) => h("div", { text, class: i ? "" : "first" })));
    tip.open();
    const corner = canvas.getBoundingClientRect();
    const zoom = zoomOf(root);
    tip.place(corner.left + pointed[0] * zoom, corner.top + pointed[1] * zoom);
  }

  function hide() {
    lit.hidden = true;
    words.replaceChildren();
    tip.close();
  }

  function pick(event) {
    const found = message?.picks && figure && find(figure, ...pointIn(event, canvas));
    if (!found || Array.isArray(found.point)) return;
    view.onPick({ x: found.trace.x[found.point], y: found.trace.y[found.point] });
  }

  function stop() {
    hide();
    unbind();
    watch.disconnect();
  }

  drawing.addEventListener("pointermove", (event) => ((pointed = pointIn(event, canvas)), hover()));
  drawing.addEventListener("pointerleave", () => ((pointed = null), hide()));
  drawing.addEventListener("click", pick);
  const said = () => [...words.children].map((line) => line.textContent).join(", ");
  const unbind = explorable(drawing, { grid: () => figure && walkOf(figure), said });
  const watch = new ResizeObserver(() => root.clientWidth !== width && draw());
  watch.observe(root);
  return view;
}
