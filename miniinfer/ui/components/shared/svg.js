// A canvas context that writes SVG in place of pixels: the part of the interface that the pictures use, and no more. Text stays
// text. A canvas that is copied into it (a map of attention) becomes an image, for its cells are pixels to begin with.

import { s } from "./dom.js";

const ANCHOR = { left: "start", center: "middle", right: "end" };
const BASELINE = { top: "text-before-edge", middle: "central", alphabetic: "alphabetic" };

export class SvgContext {
  fillStyle = "#000";
  strokeStyle = "#000";
  font = "10px sans-serif";
  textAlign = "left";
  textBaseline = "alphabetic";
  globalAlpha = 1;
  lineWidth = 1;
  #probe = document.createElement("canvas").getContext("2d");
  #at = [0, 0]; // pictures move their origin and turn or scale nothing
  #path = "";

  constructor(width, height) {
    this.root = s("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  }

  /** The file's text. */
  toString() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.root)}\n`;
  }

  place(x, y) {
    this.#at = [x, y];
  }

  translate(x, y) {
    this.#at = [this.#at[0] + x, this.#at[1] + y];
  }

  measureText(text) {
    this.#probe.font = this.font;
    return this.#probe.measureText(text);
  }

  fillRect(x, y, width, height) {
    this.#add("rect", { ...this.#box(x, y, width, height), fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.#add("rect", { ...this.#box(x, y, width, height), ...this.#line() });
  }

  fillText(words, x, y) {
    const text = this.#add("text", {
      x: number(this.#at[0] + x),
      y: number(this.#at[1] + y),
      fill: this.fillStyle,
      "text-anchor": ANCHOR[this.textAlign],
      "dominant-baseline": BASELINE[this.textBaseline],
    });
    text.style.font = this.font;
    text.style.whiteSpace = "pre";
    text.textContent = printable(words);
  }

  beginPath() {
    this.#path = "";
  }

  /** A whole circle, which is all that the pictures draw of arcs. */
  arc(x, y, r) {
    const [cx, cy] = [this.#at[0] + x, this.#at[1] + y];
    const half = (to) => `A${r} ${r} 0 1 1 ${number(to)} ${number(cy)}`;
    this.#path += `M${number(cx - r)} ${number(cy)}${half(cx + r)}${half(cx - r)}Z`;
  }

  roundRect(x, y, width, height, r) {
    const [left, top] = [this.#at[0] + x, this.#at[1] + y];
    const [w, h] = [number(width - 2 * r), number(height - 2 * r)];
    const corner = (dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
    this.#path += `M${number(left + r)} ${number(top)}h${w}${corner(r, r)}v${h}${corner(-r, r)}h-${w}${corner(-r, -r)}v-${h}${corner(r, -r)}Z`;
  }

  fill() {
    this.#add("path", { d: this.#path, fill: this.fillStyle });
  }

  stroke() {
    this.#add("path", { d: this.#path, ...this.#line() });
  }

  drawImage(canvas, x, y, width, height) {
    const image = this.#add("image", this.#box(x, y, width, height));
    image.setAttribute("href", canvas.toDataURL("image/png"));
    image.style.imageRendering = "pixelated";
  }

  #add(name, props) {
    const element = s(name, this.globalAlpha < 1 ? { ...props, opacity: number(this.globalAlpha) } : props);
    this.root.append(element);
    return element;
  }

  #box(x, y, width, height) {
    return {
      x: number(this.#at[0] + x),
      y: number(this.#at[1] + y),
      width: number(Math.max(0, width)),
      height: number(Math.max(0, height)),
    };
  }

  #line() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": number(this.lineWidth) };
  }
}

const number = (value) => String(Math.round(value * 100) / 100);

// XML has no way to write most controls and halves of pairs.
const printable = (text) =>
  String(text)
    .toWellFormed()
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
