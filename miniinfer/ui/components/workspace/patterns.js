// Patterns of all heads, pooled by the largest value into at most maxBins x maxBins bins. Bins grow by doubling, finished lines are kept.

export class Patterns {
  #history = null;
  #lines = new Map(); // "bin:i" -> u8 [L * H, i + 1], complete lines only

  /** {bin, lines}: lines[i] covers queries i * bin .. (i + 1) * bin - 1 before ctx; null where rows are not here. */
  at({ history, info, ctx }, maxBins) {
    if (history !== this.#history) {
      this.#history = history;
      this.#lines.clear();
    }
    let bin = 1;
    while (ctx / bin > maxBins) bin *= 2;
    const lines = [];
    for (let i = 0; i * bin < ctx; i++) lines.push(this.#line(history, info, bin, i, ctx));
    return { bin, lines };
  }

  #line(history, info, bin, i, ctx) {
    const key = `${bin}:${i}`;
    if (this.#lines.has(key)) return this.#lines.get(key);
    const to = Math.min((i + 1) * bin, ctx);
    const line = pool(history, info, bin, i, i * bin, to);
    if (line && to === (i + 1) * bin) this.#lines.set(key, line);
    return line;
  }
}

function pool(history, info, bin, i, from, to) {
  const heads = info.num_layers * info.num_heads;
  const line = new Uint8Array(heads * (i + 1));
  for (let q = from; q < to; q++) {
    const rows = history.rowsOf(q);
    if (rows) addRow(line, rows, heads, q, bin, i);
    else if (!addFromMap(line, history, heads, q, bin, i)) return null;
  }
  return line;
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

// A prefill step sends its whole pattern pooled to B x B.
function addFromMap(line, history, heads, q, bin, i) {
  const step = [...history.maps.keys()].filter((s) => history.meta[s - 1]?.ctx > q).sort((a, b) => a - b)[0];
  if (step === undefined) return false;
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
  return true;
}
