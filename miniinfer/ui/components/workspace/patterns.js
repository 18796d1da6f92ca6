// Patterns of all heads, pooled by the largest value into at most maxBins x maxBins bins. Bins grow by doubling. Finished lines
// are kept, the one that steps still add rows to goes on from where it was, and two lines become one when bins double.

export class Patterns {
  #history = null;
  #lines = new Map(); // "bin:i" -> u8 [L * H, i + 1], complete lines only
  #open = null; // the newest line: {bin, i, to, line}, rows before `to` are in it

  /** {bin, lines}: lines[i] covers queries i * bin .. (i + 1) * bin - 1 before ctx; null where rows are not here. */
  at({ history, info, ctx }, maxBins) {
    if (history !== this.#history) {
      this.#history = history;
      this.#lines.clear();
      this.#open = null;
    }
    let bin = 1;
    while (ctx / bin > maxBins) bin *= 2;
    const lines = [];
    const heads = info.num_layers * info.num_heads;
    for (let i = 0; i * bin < ctx; i++) lines.push(this.#line(history, heads, bin, i, ctx));
    return { bin, lines };
  }

  #line(history, heads, bin, i, ctx) {
    const key = `${bin}:${i}`;
    if (this.#lines.has(key)) return this.#lines.get(key);
    const to = Math.min((i + 1) * bin, ctx);
    const whole = to === (i + 1) * bin;
    const line = (whole && this.#merged(heads, bin, i)) || this.#pool(history, heads, bin, i, to, whole);
    if (line && whole) this.#lines.set(key, line);
    return line;
  }

  #pool(history, heads, bin, i, to, whole) {
    for (let q = i * bin; q < to; q++) if (!history.rowsOf(q) && !mapOf(history, q)) return null;
    let open = this.#open;
    if (open?.bin !== bin || open.i !== i || open.to > to)
      open = { bin, i, to: i * bin, line: new Uint8Array(heads * (i + 1)) };
    for (; open.to < to; open.to++) {
      const rows = history.rowsOf(open.to);
      if (rows) addRow(open.line, rows, heads, open.to, bin, i);
      else addFromMap(open.line, history, heads, open.to, bin, i);
    }
    if (!whole) this.#open = open;
    return open.line;
  }

  // From two complete lines of bins half as wide.
  #merged(heads, bin, i) {
    const [a, b] = [2 * i, 2 * i + 1].map((k) => this.#lines.get(`${bin / 2}:${k}`));
    if (!a || !b) return null;
    const line = new Uint8Array(heads * (i + 1));
    for (const [half, width] of [
      [a, 2 * i + 1],
      [b, 2 * i + 2],
    ])
      for (let h = 0; h < heads; h++)
        for (let j = 0; j < width; j++) {
          const at = h * (i + 1) + (j >> 1);
          if (half[h * width + j] > line[at]) line[at] = half[h * width + j];
        }
    return line;
  }
}

function addRow(line, rows, heads, q, bin, i) {
  for (let h = 0; h < heads; h++) {
    const base = h * (q + 1);
    const out = h * (i + 1);
    for (let k = 0, j = 0, left = bin; k <= q; k++) {
      const value = rows[base + k];
      if (value > line[out + j]) line[out + j] = value;
      if (--left === 0) {
        left = bin;
        j++;
      }
    }
  }
}

/** The prefill step whose map holds the row of position q, or undefined. */
function mapOf(history, q) {
  let first;
  for (const step of history.maps.keys()) if (history.meta[step - 1]?.ctx > q && !(first < step)) first = step;
  return first;
}

// A prefill step sends its whole pattern pooled to B x B.
function addFromMap(line, history, heads, q, bin, i) {
  const step = mapOf(history, q);
  const map = history.maps.get(step);
  const ctx = history.meta[step - 1].ctx;
  const size = Math.round(Math.sqrt(map.length / heads));
  const cell = history.cells.get(step) ?? ctx / size;
  const row = Math.min(size - 1, Math.floor(q / cell));
  for (let h = 0; h < heads; h++) {
    const base = (h * size + row) * size;
    for (let c = 0; c <= row; c++) {
      const value = map[base + c];
      if (!value) continue;
      const j0 = Math.min(i, Math.floor((c * cell) / bin));
      const j1 = Math.min(i, Math.floor(((c + 1) * cell - 1e-6) / bin));
      for (let j = j0; j <= j1; j++) if (value > line[h * (i + 1) + j]) line[h * (i + 1) + j] = value;
    }
  }
}
