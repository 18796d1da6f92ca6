"""Pictures of attention that go on from the step before: they are those that are made at once, cell by cell."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from miniinfer.figures.joined import joined_scripts
from miniinfer.ui.bundle import ROOT

# What the picture is by definition, in as few words as it takes: each pixel the largest weight of the cells in it.
PLAIN = """
function plain({ first, n, per, row, pooled, skip }) {
  const size = Math.max(1, Math.ceil(n * per));
  const most = new Uint8Array(size * size);
  for (let i = 0; i < n; i++) {
    const values = row(i);
    for (let k = Math.max(first, skip); k <= first + i; k++) {
      const [x, y] = [Math.floor((k - first) * per), Math.floor(i * per)];
      let value = 0;
      if (values) value = values[k];
      else if (pooled && i < pooled.to && !(skip && k < pooled.cell))
        value = pooled.cells[Math.floor(i / pooled.cell) * pooled.size + Math.floor(k / pooled.cell)];
      most[y * size + x] = Math.max(most[y * size + x], value);
    }
  }
  return { size, most };
}"""
RUN = """
(() => {
  const { HeadPixels } = $["workspace/headpixels.js"];
  const table = Uint32Array.from({ length: 256 }, (_, v) => 0xff000000 + v * 0x010101);
  let seed = 7;
  const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const rowOf = (i) => Uint8Array.from({ length: i + 1 }, () => (chance() < 0.3 ? Math.floor(256 * chance()) : 0));
  const rows = new Map();
  let pooled = null;
  const kept = new HeadPixels();
  const canvas = document.createElement("canvas");
  const found = [];
  let ask = { history: rows, head: [1, 2], first: 0, n: 0, capacity: 128, per: PER, skip: 0, table };

  const pool = (to, cell) => {
    const size = Math.ceil(to / cell);
    const cells = new Uint8Array(size * size);
    for (let i = 0; i < to; i++) (rows.get(i) ?? rowOf(i)).forEach((v, k) => {
      const at = Math.floor(i / cell) * size + Math.floor(k / cell);
      cells[at] = Math.max(cells[at], v);
    });
    return { to, cell, size, cells };
  };

  const check = (what) => {
    const now = { ...ask, row: (i) => rows.get(ask.first + i) ?? null, pooled };
    kept.update(now);
    const { size, most } = plain(now);
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    kept.draw(context, 0, 0, ask.per, ask.per);
    const drawn = context.getImageData(0, 0, size, size).data;
    let wrong = kept.size === size ? 0 : 1;
    for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) {
      const at = 4 * (y * size + x);
      const [value, alpha] = x <= y ? [most[y * size + x], 255] : [0, 0];
      if (drawn[at] !== value || drawn[at + 3] !== alpha) wrong++;
    }
    const missing = Array.from({ length: ask.n }, (_, i) => i).filter((i) => !now.row(i) && !(pooled && i < pooled.to));
    if (String(kept.unknown) !== String(missing)) wrong++;
    if (wrong) found.push(`${what}: ${wrong}`);
  };

  for (let n = 1; n <= 40; n++) (rows.set(n - 1, rowOf(n - 1)), (ask.n = n), check(`step ${n}`));
  ask.n = 20; check("back");
  ask.n = 40; check("forth");
  ask.n = 46; check("rows that are not here");
  pooled = pool(46, 4); check("a pooled map");
  for (let n = 47; n <= 60; n++) (rows.set(n - 1, rowOf(n - 1)), (ask.n = n), check(`step ${n}, pooled below`));
  rows.set(43, rowOf(43)); check("a row in place of its cells");
  ask.skip = 1; check("without the first token");
  ask = { ...ask, skip: 0, head: [0, 0] }; check("another head");
  pooled = null;
  ask = { ...ask, first: 12, n: 30, capacity: 48 }; check("a window");
  ask = { ...ask, first: 13 }; check("the window moved");
  ask = { ...ask, first: 0, n: 130, capacity: 192 }; check("a larger grid");
  return found;
})()"""


@pytest.mark.parametrize("per", [1, 0.37])
def test_kept_pixels_are_those_of_a_picture_made_at_once(chromium: Browser, per: float) -> None:
    page = chromium.new_page()
    script = joined_scripts(ROOT, "workspace/headpixels.js")
    wrong = page.evaluate(f"() => {{ {script} {PLAIN} const PER = {per}; return {RUN.strip()}; }}")
    page.close()
    assert wrong == []


PATTERNS = """
(() => {
  const { Patterns } = $["workspace/patterns.js"];
  const [info, heads, prompt, cell] = [{ num_layers: 2, num_heads: 3 }, 6, 21, 2];
  let seed = 5;
  const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const weight = () => (chance() < 0.3 ? Math.floor(256 * chance()) : 0);
  const rowOf = (q) => Uint8Array.from({ length: heads * (q + 1) }, weight);
  const rows = new Map();
  const size = Math.ceil(prompt / cell);
  const map = new Uint8Array(heads * size * size);
  for (let h = 0; h < heads; h++) for (let y = 0; y < size; y++) for (let x = 0; x <= y; x++)
    map[(h * size + y) * size + x] = Math.floor(256 * chance());
  const meta = [{ ctx: prompt }];
  const history = { rowsOf: (q) => rows.get(q) ?? null, maps: new Map([[1, map]]), cells: new Map([[1, cell]]), meta };
  const kept = new Patterns();
  const found = [];

  // By definition: of bin (i, j) of a head the largest weight of the cells that touch it.
  const plain = (ctx, bin, i) => {
    const line = new Uint8Array(heads * (i + 1));
    for (let q = i * bin; q < Math.min((i + 1) * bin, ctx); q++) {
      if (!rows.has(q) && q >= prompt) return null;
      for (let h = 0; h < heads; h++) for (let k = 0; k <= q; k++) {
        const pooled = map[(h * size + Math.floor(q / cell)) * size + Math.floor(k / cell)];
        const value = rows.has(q) ? rows.get(q)[h * (q + 1) + k] : pooled;
        const at = h * (i + 1) + Math.floor(k / bin);
        line[at] = Math.max(line[at], value);
      }
    }
    return line;
  };
  const check = (what, ctx) => {
    const { bin, lines } = kept.at({ history, info, ctx }, 8);
    lines.forEach((line, i) => {
      if (String(line) !== String(plain(ctx, bin, i))) found.push(`${what}: line ${i} of bins of ${bin}`);
    });
    if (lines.length !== Math.ceil(ctx / bin)) found.push(`${what}: ${lines.length} lines`);
  };

  check("the prompt", prompt);
  for (let q = prompt; q < 90; q++) (rows.set(q, rowOf(q)), check(`position ${q}`, q + 1));
  check("back", 40); check("forth", 90);
  rows.set(91, rowOf(91)); check("a row is missing", 92);
  rows.set(90, rowOf(90)); check("it has come", 92);
  for (let q = 92; q < 140; q++) (rows.set(q, rowOf(q)), check(`position ${q}`, q + 1));
  return found;
})()"""


def test_kept_patterns_are_those_made_at_once(chromium: Browser) -> None:
    page = chromium.new_page()
    script = joined_scripts(ROOT, "workspace/patterns.js")
    wrong = page.evaluate(f"() => {{ {script} return {PATTERNS.strip()}; }}")
    page.close()
    assert wrong == []
