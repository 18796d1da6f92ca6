// A table as a Parquet file: one row group, one plain page a column, nothing compressed. Made in the browser, sent nowhere.

const MAGIC = [0x50, 0x41, 0x52, 0x31]; // PAR1
const INT64 = 2;
const DOUBLE = 5;
const BYTE_ARRAY = 6;
const [I32, I64, BINARY, LIST, STRUCT] = [5, 6, 8, 9, 12]; // types of Thrift's compact protocol
const UTF8 = 0;
const OPTIONAL = 1;
const [PLAIN, RLE] = [0, 3];

/**
 * header: names of columns; rows: lists of numbers, texts and nulls (also undefined, NaN); facts: {name: text} that the file
 * says of itself. A column of whole numbers is INT64, one of numbers DOUBLE, any other text. Returns a Uint8Array.
 */
export function toParquet(header, rows, facts = {}) {
  const out = new Bytes();
  out.raw(MAGIC);
  const columns = unique(header).map((name, i) => column(name, rows.map((row) => row[i])));
  const chunks = columns.map(({ name, type, known, present }) => {
    const at = out.length;
    const page = pageOf(type, known, present);
    const head = new Bytes();
    head.struct([
      [1, I32, 0],
      [2, I32, page.length],
      [3, I32, page.length],
      [5, STRUCT, [[1, I32, present.length], [2, I32, PLAIN], [3, I32, RLE], [4, I32, RLE]]],
    ]);
    out.raw(head.done());
    out.raw(page);
    const size = out.length - at;
    const meta = [
      [1, I32, type],
      [2, LIST, [I32, [PLAIN, RLE]]],
      [3, LIST, [BINARY, [name]]],
      [4, I32, 0],
      [5, I64, present.length],
      [6, I64, size],
      [7, I64, size],
      [9, I64, at],
    ];
    return { size, fields: [[2, I64, at], [3, STRUCT, meta]] };
  });
  const schema = [
    [[4, BINARY, "table"], [5, I32, columns.length]],
    ...columns.map(({ name, type }) => [
      [1, I32, type],
      [3, I32, OPTIONAL],
      [4, BINARY, name],
      ...(type === BYTE_ARRAY ? [[6, I32, UTF8]] : []),
    ]),
  ];
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.size, 0);
  const group = [[1, LIST, [STRUCT, chunks.map((chunk) => chunk.fields)]], [2, I64, bytes], [3, I64, rows.length]];
  const footer = new Bytes();
  footer.struct([
    [1, I32, 1],
    [2, LIST, [STRUCT, schema]],
    [3, I64, rows.length],
    [4, LIST, [STRUCT, [group]]],
    [5, LIST, [STRUCT, Object.entries(facts).map(([key, value]) => [[1, BINARY, key], [2, BINARY, value]])]],
    [6, BINARY, "MiniInfer"],
  ]);
  const end = footer.done();
  out.raw(end);
  out.u32(end.length);
  out.raw(MAGIC);
  return out.done();
}

const isNone = (value) => value === null || value === undefined || Number.isNaN(value);

function column(name, values) {
  const present = values.map((value) => !isNone(value));
  const known = values.filter((value) => !isNone(value));
  const numbers = known.every((value) => typeof value === "number");
  const whole = numbers && known.length > 0 && known.every(Number.isSafeInteger);
  return { name, type: whole ? INT64 : numbers ? DOUBLE : BYTE_ARRAY, known, present };
}

// Which rows have a value, as runs of equal bits, then the values one after another.
function pageOf(type, known, present) {
  const levels = new Bytes();
  for (let i = 0; i < present.length; ) {
    let to = i;
    while (to < present.length && present[to] === present[i]) to++;
    levels.varint(BigInt(to - i) << 1n);
    levels.raw([present[i] ? 1 : 0]);
    i = to;
  }
  const bits = levels.done();
  const page = new Bytes();
  page.u32(bits.length);
  page.raw(bits);
  for (const value of known) {
    if (type === INT64) page.number(8, (view) => view.setBigInt64(0, BigInt(value), true));
    else if (type === DOUBLE) page.number(8, (view) => view.setFloat64(0, value, true));
    else {
      const text = new TextEncoder().encode(String(value));
      page.u32(text.length);
      page.raw(text);
    }
  }
  return page.done();
}

function unique(names) {
  const seen = new Map();
  return names.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  });
}

/** Bytes that grow, and Thrift's compact protocol on them. */
class Bytes {
  #data = new Uint8Array(1024);
  length = 0;

  raw(bytes) {
    if (this.length + bytes.length > this.#data.length) {
      const bigger = new Uint8Array(Math.max(2 * this.#data.length, this.length + bytes.length));
      bigger.set(this.#data.subarray(0, this.length));
      this.#data = bigger;
    }
    this.#data.set(bytes, this.length);
    this.length += bytes.length;
  }

  done() {
    return this.#data.slice(0, this.length);
  }

  number(size, write) {
    const bytes = new Uint8Array(size);
    write(new DataView(bytes.buffer));
    this.raw(bytes);
  }

  u32(value) {
    this.number(4, (view) => view.setUint32(0, value, true));
  }

  varint(value) {
    const bytes = [];
    for (; value > 0x7fn; value >>= 7n) bytes.push(Number(value & 0x7fn) | 0x80);
    this.raw([...bytes, Number(value)]);
  }

  /** fields: [id, type, value] with rising ids. */
  struct(fields) {
    let last = 0;
    for (const [id, type, value] of fields) {
      this.raw([((id - last) << 4) | type]);
      this.value(type, value);
      last = id;
    }
    this.raw([0]);
  }

  value(type, value) {
    if (type === I32 || type === I64) return this.varint(BigInt(value) << 1n); // none of ours is below 0
    if (type === STRUCT) return this.struct(value);
    if (type === BINARY) {
      const text = new TextEncoder().encode(value);
      this.varint(BigInt(text.length));
      return this.raw(text);
    }
    const [inner, items] = value;
    if (items.length < 15) this.raw([(items.length << 4) | inner]);
    else {
      this.raw([0xf0 | inner]);
      this.varint(BigInt(items.length));
    }
    for (const item of items) this.value(inner, item);
  }
}
