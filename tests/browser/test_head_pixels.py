"""The large head's pixels: whatever was drawn before, they are those of a picture made at once, cell by cell."""

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
