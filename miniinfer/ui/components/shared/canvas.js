// Two canvases on top of each other: one for data, one for what follows the pointer. Drawn in CSS pixels.

import { h, zoomOf } from "./dom.js";

/** {root, base, over, width, height, dpr, onResize, start(layer), clear(layer), stop}; onResize is called when the size changed. */
export function createCanvas({ label, testid, className = "" }) {
  const base = h("canvas", { "aria-hidden": "true" });
  const over = h("canvas", { "aria-hidden": "true" });
  const root = h(
    "div",
    { class: `canvas ${className}`, role: "img", "aria-label": label, "data-testid": testid },
    base,
    over,
  );
  const self = {
    root,
    width: 0,
    height: 0,
    dpr: 1,
    onResize: null,
    contexts: { base: base.getContext("2d"), over: over.getContext("2d") },
  };

  const fit = () => {
    const { clientWidth, clientHeight } = root;
    const dpr = Math.min(3, (window.devicePixelRatio || 1) * zoomOf(root));
    if (clientWidth === self.width && clientHeight === self.height && dpr === self.dpr) return;
    Object.assign(self, { width: clientWidth, height: clientHeight, dpr });
    for (const canvas of [base, over]) {
      canvas.width = Math.max(1, Math.round(clientWidth * dpr));
      canvas.height = Math.max(1, Math.round(clientHeight * dpr));
    }
    for (const context of Object.values(self.contexts)) {
      fonts.delete(context); // a new size resets the context
      context.setTransform(dpr, 0, 0, dpr, 0, 0);
    }
    self.onResize?.();
  };
  const observer = new ResizeObserver(fit);
  observer.observe(root);

  const used = new Set(); // layers that may have something on them: clearing any other would have the browser paint for nothing

  /** Take off what was drawn; returns null. */
  self.clear = (layer) => {
    if (!used.delete(layer)) return null;
    const context = self.contexts[layer];
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    context.setTransform(self.dpr, 0, 0, self.dpr, 0, 0);
    return null;
  };
  /** A cleared context in CSS pixels, or null while there is no room to draw. */
  self.start = (layer) => {
    self.clear(layer);
    if (self.width <= 8 || self.height <= 8) return null;
    used.add(layer);
    return self.contexts[layer];
  };
  self.stop = () => observer.disconnect();
  return self;
}

/**
 * An off-screen image: pixels(w, h) -> Uint32Array whose lines are .stride apart, draw(context, x, y, width, height). Kept by its owner;
 * it grows in jumps, because a picture that is a column wider each step would be made anew each step.
 */
export function createImage() {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  let image = null;
  let data = null;
  let [wide, high] = [0, 0];
  const self = {
    stride: 0,
    pixels(w, h) {
      [wide, high] = [w, h];
      if (!image || image.width < w || image.height < h) {
        canvas.width = Math.max(image?.width ?? 0, JUMP * Math.ceil(w / JUMP));
        canvas.height = Math.max(image?.height ?? 0, JUMP * Math.ceil(h / JUMP));
        image = context.createImageData(canvas.width, canvas.height);
        data = new Uint32Array(image.data.buffer);
      }
      self.stride = image.width;
      return data;
    },
    draw(target, x, y, width, height) {
      context.putImageData(image, 0, 0, 0, 0, wide, high);
      target.imageSmoothingEnabled = false;
      target.drawImage(canvas, 0, 0, wide, high, x, y, width, height);
    },
  };
  return self;
}

const JUMP = 64; // pixels

const fonts = new WeakMap();

/** Setting even the same canvas font can make the browser work out styles; so only when it differs. */
export function setFont(context, font) {
  if (fonts.get(context) === font) return;
  fonts.set(context, font);
  context.font = font;
}

/** Diagonal hatching inside a rectangle: allocated but empty, or not known. */
export const hatch = (context, x, y, w, h, colour, gap) => hatchAll(context, [[x, y, w, h]], colour, gap);

/** The same inside several rectangles [x, y, w, h], as one area. */
export function hatchAll(context, boxes, colour, gap = 5) {
  const all = boxes.filter(([, , w, h]) => w > 0 && h > 0);
  if (!all.length) return;
  const [left, right] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x, , w]) => x + w))];
  const [top, bottom] = [Math.min(...all.map(([, y]) => y)), Math.max(...all.map(([, y, , h]) => y + h))];
  context.save();
  context.beginPath();
  for (const box of all) context.rect(...box);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = left - (bottom - top); x < right; x += gap) {
    context.moveTo(x, bottom);
    context.lineTo(x + bottom - top, top);
  }
  context.stroke();
  context.restore();
}

/** Pointer position in CSS pixels of the element. */
export function pointIn(event, el) {
  const box = el.getBoundingClientRect();
  const zoom = zoomOf(el);
  return [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom];
}
