// The cells of one head's pattern as pixels, pooled by the largest value where a cell is smaller than a pixel. What is there
// already stays: a step adds its own row, which at thousands of tokens is a small part of the picture.

import { createImage } from "../shared/canvas.js";

const [NOTHING, POOLED, ROW] = [0, 1, 2]; // what a row of the picture was drawn from

export class HeadPixels {
  #image = createImage();
  #key = [];
  #most = new Uint8Array(0); // the largest value of each pixel, #side a line
  #side = 0;
  #from = new Uint8Array(0); // by row
  #drawn = 0; // rows
  #clean = 0; // lines from the top that have their colours
  #data = null;
  size = 0; // pixels a side
  unknown = []; // rows of which nothing is here

  /**
   * n: positions shown, from `first` on; capacity: those the grid has room for; per: pixels a position, at most 1.
   * row(i): u8 weights of position first + i, or null. pooled: the whole pattern in cells, or null. skip: columns left out.
   */
  update({ history, head, first, n, capacity, per, row, pooled, skip, table }) {
    const key = [history, head.join("."), first, per, pooled, skip, table];
    if (key.some((value, i) => value !== this.#key[i]) || n < this.#drawn || this.#side < Math.ceil(n * per))
      this.#begin(key, capacity, per);
    for (let again = true; again; ) {
      again = false;
      for (let i = 0; i < n; i++) {
        if (this.#from[i] === ROW) continue;
        const values = row(i);
        const source = values ? ROW : pooled && i < pooled.to ? POOLED : NOTHING;
        if (source <= this.#from[i]) continue;
        if (this.#from[i] === POOLED) {
          this.#begin(key, capacity, per); // its cells may be brighter than the row itself
          again = true;
          break;
        }
        this.#from[i] = source;
        const line = Math.floor(i * per);
        this.#clean = Math.min(this.#clean, line);
        if (values) this.#addRow(values, line * this.#side, first, i, per, skip);
        else this.#addCells(pooled, line * this.#side, i, per, skip);
      }
    }
    this.#drawn = n;
    this.size = Math.max(1, Math.ceil(n * per));
    this.unknown = [];
    for (let i = 0; i < n; i++) if (this.#from[i] === NOTHING) this.unknown.push(i);
    this.#colour(table);
  }

  /** `cell`: CSS pixels of a position. */
  draw(context, x, y, cell, per) {
    this.#image.draw(context, x, y, (this.size / per) * cell, (this.size / per) * cell);
  }

  #begin(key, capacity, per) {
    this.#key = key;
    this.#side = Math.max(1, Math.ceil(capacity * per));
    this.#most = new Uint8Array(this.#side * this.#side);
    this.#from = new Uint8Array(capacity);
    this.#drawn = this.#clean = 0;
  }

  #addRow(row, line, first, i, per, skip) {
    const most = this.#most;
    const begin = Math.max(first, skip);
    if (per === 1) {
      for (let k = begin; k <= first + i; k++) if (row[k] > most[line + k - first]) most[line + k - first] = row[k];
      return;
    }
    for (let k = begin, at = line; k <= first + i; k++) {
      at = line + Math.floor((k - first) * per);
      if (row[k] > most[at]) most[at] = row[k];
    }
  }

  // A row of a long pattern, from the cells it lies in.
  #addCells({ cell, size: across, cells: values }, line, i, per, skip) {
    const most = this.#most;
    const y = Math.floor(i / cell);
    for (let c = 0; c <= y; c++) {
      const value = values[y * across + c];
      if (!value || (skip && c === 0)) continue;
      const to = Math.floor(Math.min(i, (c + 1) * cell - 1) * per);
      for (let at = Math.floor(c * cell * per); at <= to; at++) if (value > most[line + at]) most[line + at] = value;
    }
  }

  #colour(table) {
    const { size } = this;
    const out = this.#image.pixels(size, size);
    if (out !== this.#data) this.#clean = 0;
    this.#data = out;
    for (let y = this.#clean; y < size; y++) {
      const from = y * this.#side;
      const to = y * this.#image.stride;
      for (let x = 0; x <= y; x++) out[to + x] = table[this.#most[from + x]];
      out.fill(0, to + y + 1, to + this.#image.stride);
    }
    this.#clean = size;
  }
}
