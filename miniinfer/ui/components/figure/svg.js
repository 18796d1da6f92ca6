// A drawing context that writes SVG: as much of a canvas's as the figures use.

const SVG = "http://www.w3.org/2000/svg";
const BASELINES = { top: 0.8, middle: 0.35, alphabetic: 0, bottom: -0.2 };

export class SvgContext {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "12px sans-serif";
  textAlign = "left";
  textBaseline = "alphabetic";
  imageSmoothingEnabled = true;
  #dash = [];
  #path = [];
  #moves = [];
  #clip = null;
  #stack = [];
  #clips = 0;
  #measure = document.createElement("canvas").getContext("2d");

  constructor(width, height) {
    this.root = document.createElementNS(SVG, "svg");
    const size = { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` };
    for (const [name, value] of Object.entries(size)) this.root.setAttribute(name, String(value));
    this.defs = this.root.appendChild(document.createElementNS(SVG, "defs"));
  }

  /** The picture as a file's text. */
  toString() {
    return new XMLSerializer().serializeToString(this.root);
  }

  save() {
    this.#stack.push([this.#moves.slice(), this.#clip]);
  }

  restore() {
    [this.#moves, this.#clip] = this.#stack.pop() ?? [[], null];
  }

  translate(x, y) {
    this.#moves.push(`translate(${short(x)} ${short(y)})`);
  }

  rotate(angle) {
    this.#moves.push(`rotate(${short((angle * 180) / Math.PI)})`);
  }

  setLineDash(dash) {
    this.#dash = dash;
  }

  measureText(text) {
    this.#measure.font = this.font;
    return this.#measure.measureText(text);
  }

  beginPath() {
    this.#path = [];
  }

  moveTo(x, y) {
    this.#path.push(`M${short(x)} ${short(y)}`);
  }

  lineTo(x, y) {
    this.#path.push(`L${short(x)} ${short(y)}`);
  }

  rect(x, y, width, height) {
    this.#path.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`);
  }

  /** Whole circles only: that is all that is drawn. */
  arc(x, y, radius) {
    const r = short(radius);
    this.#path.push(`M${short(x - radius)} ${short(y)}a${r} ${r} 0 1 0 ${short(2 * radius)} 0a${r} ${r} 0 1 0 ${short(-2 * radius)} 0Z`);
  }

  clip() {
    const id = `c${++this.#clips}`;
    const path = this.#element("clipPath", { id }, this.defs);
    this.#element("path", { d: this.#path.join(""), transform: this.#moves.join(" ") || null }, path);
    this.#clip = `url(#${id})`;
  }

  fill() {
    this.#add("path", { d: this.#path.join(""), fill: this.fillStyle });
  }

  stroke() {
    this.#add("path", { d: this.#path.join(""), fill: "none", ...this.#pen() });
  }

  fillRect(x, y, width, height) {
    this.#add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    const box = { x: short(x), y: short(y), width: short(width), height: short(height) };
    this.#add("rect", { ...box, fill: "none", ...this.#pen() });
  }

  fillText(text, x, y) {
    const [, weight, size, family] = /^(\d+ )?([\d.]+)px (.*)$/.exec(this.font) ?? [];
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const el = this.#add("text", {
      x: short(x), y: short(y + Number(size) * BASELINES[this.textBaseline]), fill: this.fillStyle, "text-anchor": anchor,
      "font-size": size, "font-family": family, "font-weight": weight?.trim() ?? "400", "xml:space": "preserve",
    });
    el.textContent = printable(text);
  }

  drawImage(canvas, x, y, width, height) {
    this.#add("image", {
      href: canvas.toDataURL(), x: short(x), y: short(y), width: short(width), height: short(height),
      preserveAspectRatio: "none", style: "image-rendering: pixelated",
    });
  }

  #pen() {
    return { stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.#dash.join(" ") || null };
  }

  #add(tag, attributes) {
    const turned = { transform: this.#moves.join(" ") || null, opacity: this.globalAlpha === 1 ? null : this.globalAlpha };
    // The clip is in the figure's own coordinates, so it stands around what was moved.
    const parent = this.#clip ? this.#element("g", { "clip-path": this.#clip }, this.root) : this.root;
    return this.#element(tag, { ...attributes, ...turned }, parent);
  }

  #element(tag, attributes, parent) {
    const el = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null) el.setAttribute(name, String(value));
    return parent.appendChild(el);
  }
}

const short = (value) => Number(value.toFixed(2));

// XML has no way to write most controls and halves of pairs.
const printable = (text) =>
  String(text)
    .toWellFormed()
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
