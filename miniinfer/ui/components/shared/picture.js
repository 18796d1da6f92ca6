// A picture that explains itself: title, lines of text, colour scale, then the drawing, on the panel's own background.

import { SvgContext } from "./svg.js";

const PAD = 18;
const TITLE = 22;
const LINE = 17;
const SCALE = 30;

/**
 * {theme, title, lines: [text], scale: {ramp, ticks: [[0..1, text]], label} | null, width, height (CSS pixels of the drawing), dpr,
 *  parts: [[canvas, x, y] | function(context)]} -> canvas. A canvas is copied pixel by pixel; a function draws in CSS pixels, (0, 0)
 * is the drawing's corner.
 */
export function drawPicture(picture) {
  const { dpr } = picture;
  const plan = planOf(picture);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(plan.width * dpr);
  canvas.height = Math.round(plan.height * dpr);
  const context = canvas.getContext("2d");
  const place = (x, y) => context.setTransform(dpr, 0, 0, dpr, Math.round(x * dpr), Math.round(y * dpr));
  paint(context, picture, plan, place, ([part, x, y]) => copy(context, part, x, y, dpr, plan.top));
  return canvas;
}

/** The same as the text of an SVG file, in which text and bars stay what they are. */
export function drawSvg(picture) {
  const plan = planOf(picture);
  const context = new SvgContext(plan.width, plan.height);
  paint(context, picture, plan, (x, y) => context.place(x, y), ([part, x, y]) => {
    context.place(PAD + x, plan.top + y);
    if (part.width > 1) context.drawImage(part, 0, 0, part.width / picture.dpr, part.height / picture.dpr);
  });
  return context.toString();
}

// How large it is and where its parts lie.
function planOf({ theme, lines, scale = null, width, height }) {
  const probe = document.createElement("canvas").getContext("2d");
  const inner = Math.max(360, Math.ceil(width));
  probe.font = font(theme, 12);
  const text = lines.flatMap((line) => wrap(probe, line, inner));
  const top = PAD + TITLE + text.length * LINE + (scale ? SCALE : 0) + 8;
  return { inner, text, top, width: inner + 2 * PAD, height: top + Math.ceil(height) + PAD };
}

function paint(context, { theme, title, scale = null, parts }, { inner, text, top, width, height }, place, image) {
  place(0, 0);
  context.fillStyle = theme.bg;
  context.fillRect(0, 0, width, height);
  place(PAD, PAD);
  context.textBaseline = "top";
  context.fillStyle = theme.text;
  context.font = font(theme, 15, 650);
  context.fillText(fitted(context, title, inner), 0, 0);
  context.font = font(theme, 12);
  context.fillStyle = theme.text2;
  text.forEach((line, i) => context.fillText(line, 0, TITLE + i * LINE));
  if (scale) drawScale(context, theme, scale, TITLE + text.length * LINE + 4);
  for (const part of parts) {
    place(PAD, top);
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    if (typeof part === "function") part(context);
    else image(part);
  }
}

/** The font of pictures at a size in CSS pixels. */
export const font = (theme, size, weight = 400) => `${weight} ${size}px ${theme.font}, sans-serif`;

function copy(context, canvas, x, y, dpr, top) {
  context.setTransform(1, 0, 0, 1, 0, 0);
  if (canvas.width > 1) context.drawImage(canvas, Math.round((PAD + x) * dpr), Math.round((top + y) * dpr));
}

function drawScale(context, theme, { ramp, ticks, label }, y) {
  context.fillText(label, 0, y);
  const x = context.measureText(label).width + 14;
  for (let i = 0; i < 256; i++) {
    context.fillStyle = ramp.css(i);
    context.fillRect(x + (i * 180) / 256, y, 180 / 256 + 0.5, 9);
  }
  context.fillStyle = theme.text2;
  context.font = font(theme, 10);
  ticks.forEach(([at, text], i) => {
    context.textAlign = i === 0 ? "left" : i === ticks.length - 1 ? "right" : "center";
    context.fillText(text, x + 180 * at, y + 12);
  });
}

function wrap(context, line, width) {
  const out = [""];
  for (const word of line.split(" ")) {
    const longer = out.at(-1) ? `${out.at(-1)} ${word}` : word;
    if (context.measureText(longer).width <= width) out[out.length - 1] = longer;
    else out.push(word);
  }
  return out.filter(Boolean);
}

/** Text cut with "…" so that it is at most `width` wide in the context's font. */
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const chars = [...text];
  while (chars.length && context.measureText(`${chars.join("")}…`).width > width) chars.pop();
  return `${chars.join("")}…`;
}
