// Everything the client knows of one run. Positions and steps are only ever appended, so going back needs no server.

/** Steps count from 1; positions from 0. Values of attention are u8 = round(255 * sqrt(p)). */
export class RunHistory {
  constructor(info) {
    this.info = info;
    this.meta = []; // meta[s - 1] is step s
    this.tokens = []; // [id, text, hex, flags] by position
    this.kv = new Float32Array(0); // [n, L, 2] norms of K and V
    this.kvCount = 0;
    this.rows = new Map(); // step -> u8 [L, H, C], newest row of the step
    this.maps = new Map(); // prefill step -> u8 [L, H, B, B]
    this.cells = new Map(); // the same step -> positions that one pixel of it covers
    this.next = new Map(); // step -> NEXT | null
    this.heads = new Map(); // "layer.head" -> rows by query position
    this.pooled = new Map(); // "layer.head" -> {to, cell, size, cells u8 [size, size]}: a long pattern, max-pooled
    this.exact = new Map(); // "layer.head" -> f32 rows by query position, as the model computed them
    this.looks = new Map(); // position -> {rows u8 [L, H, p + 1], next}
    this.probs = new Float32Array(0);
    this.source = {};
    this.last = 0;
    this.opened = 0; // steps that were there when the run came into view
    this.seen = 0; // last step that has been on screen; what play has buffered beyond it stays hidden
    this.stepOfRow = []; // query position -> step whose newest row it is
    this.stepOfToken = []; // position -> step that chose the token
    this.gap = false;
    this.detailBytes = 0;
    this.kvRange = [null, null];
  }

  get have() {
    return { meta: this.meta.length, tok: this.tokens.length, kv: this.kvCount };
  }

  /** Last step that can be painted at once. */
  get known() {
    return Math.min(this.last, this.meta.length);
  }

  /** Last step that is offered to the reader. */
  get offered() {
    return Math.min(Math.max(this.opened, this.seen), this.known);
  }

  merge(header, blob) {
    this.info = header.run;
    if (header.source) this.source = header.source;
    this.last = Math.max(this.last, header.last);
    this.gap = false;
    if (header.meta) this.#appendMeta(header.meta_from, header.meta);
    if (header.tokens) this.#appendTokens(header.tok_from, header.tokens);
    const kv = blob("kv");
    if (kv) this.#appendKv(header.kv_from, kv);
    for (const [step, detail] of Object.entries(header.details ?? {})) this.#detail(Number(step), detail, blob);
    if (header.head) this.#head(header.head, blob("head"));
    if (header.exact) this.#exact(header.exact, blob("exact"));
    if (header.row) this.looks.set(header.row.pos, { rows: blob("row"), next: header.row.next });
    const probs = blob("probs");
    if (probs) this.#appendProbs(header.probs.from, probs);
    if (this.meta.length < this.last) this.gap = true;
  }

  #appendMeta(from, list) {
    if (from - 1 > this.meta.length) return void (this.gap = true);
    list.forEach((meta, i) => {
      this.meta[from - 1 + i] = meta;
      this.stepOfRow[meta.ctx - 1] = meta.step;
      if (meta.token !== null) this.stepOfToken[meta.ctx] = meta.step;
    });
  }

  #appendTokens(from, list) {
    if (from > this.tokens.length) return void (this.gap = true);
    list.forEach((token, i) => (this.tokens[from + i] = token));
  }

  #appendKv(from, array) {
    const width = this.info.num_layers * 2;
    if (from > this.kvCount) return void (this.gap = true);
    const count = from + array.length / width;
    this.kv = grown(this.kv, count * width);
    this.kv.set(array, from * width);
    this.kvCount = Math.max(this.kvCount, count);
    for (let i = 0; i < array.length; i++) {
      const range = (this.kvRange[i & 1] ??= [Infinity, -Infinity]);
      range[0] = Math.min(range[0], array[i]);
      range[1] = Math.max(range[1], array[i]);
    }
  }

  #appendProbs(from, array) {
    if (from > this.probs.length) return void (this.gap = true);
    const all = new Float32Array(Math.max(this.probs.length, from + array.length));
    all.set(this.probs);
    all.set(array, from);
    this.probs = all;
  }

  #detail(step, detail, blob) {
    const rows = blob(`rows:${step}`);
    const maps = blob(`maps:${step}`);
    this.next.set(step, detail.next ?? null);
    if (detail.no_rows) this.rows.set(step, null);
    if (detail.cell) this.cells.set(step, detail.cell);
    for (const [map, array] of [
      [this.rows, rows],
      [this.maps, maps],
    ]) {
      if (!array) continue;
      this.detailBytes += array.length - (map.get(step)?.length ?? 0);
      map.set(step, array);
    }
  }

  #head({ layer, head, from, to, cell }, flat) {
    const key = `${layer}.${head}`;
    if (cell > 1) return void this.pooled.set(key, { to, cell, size: Math.ceil(to / cell), cells: flat });
    if (!this.heads.has(key)) this.heads.set(key, []);
    const rows = this.heads.get(key);
    for (let q = from, at = 0; q < to; at += q + 1, q++) rows[q] = flat.subarray(at, at + q + 1);
  }

  #exact({ layer, head, at }, flat) {
    const key = `${layer}.${head}`;
    if (!this.exact.has(key)) this.exact.set(key, new Map());
    const rows = this.exact.get(key);
    let from = 0;
    for (const q of at) rows.set(q, flat.subarray(from, (from += q + 1)));
  }

  /** One head's row in float32 (q + 1 entries), or null where only 8 bits of it are here. */
  exactRow(layer, head, q) {
    return this.exact.get(`${layer}.${head}`)?.get(q) ?? null;
  }

  /** u8 [L, H, q + 1] of the query at position q, or null when it is not here. */
  rowsOf(q) {
    return this.rows.get(this.stepOfRow[q]) ?? this.looks.get(q)?.rows ?? null;
  }

  /** A recording of a long run kept no row of the query at position q, so there is nothing to wait for. */
  lacks(q) {
    return this.rows.get(this.stepOfRow[q]) === null || this.looks.get(q)?.rows === null;
  }

  /** One head's row (q + 1 entries) of the query at position q, or null. */
  row(layer, head, q) {
    const all = this.rowsOf(q);
    if (all) {
      const start = (layer * this.info.num_heads + head) * (q + 1);
      return all.subarray(start, start + q + 1);
    }
    return this.heads.get(`${layer}.${head}`)?.[q] ?? null;
  }

  /** Norm of K (which 0) or V (which 1) at a position, or NaN. */
  norm(layer, position, which) {
    return position < this.kvCount ? this.kv[(position * this.info.num_layers + layer) * 2 + which] : NaN;
  }

  /** Forget rows far from `step` until at most `bytes` are held; they can be asked for again. */
  trim(bytes, step) {
    if (this.detailBytes <= bytes) return;
    const far = [...this.rows.keys()].sort((a, b) => Math.abs(b - step) - Math.abs(a - step));
    for (const key of far) {
      if (this.detailBytes <= bytes) break;
      this.detailBytes -= this.rows.get(key)?.length ?? 0;
      this.rows.delete(key);
    }
  }
}

function grown(array, need) {
  if (need <= array.length) return array;
  const bigger = new Float32Array(Math.max(need, array.length * 2));
  bigger.set(array);
  return bigger;
}
