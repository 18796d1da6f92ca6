// A plain table of many rows: sorted by a click on a column's head, at most MOST rows drawn, rows and cells kept from step to step.

import { h, setAttr, setText, show } from "./dom.js";
import * as format from "./format.js";
import { sourceMark } from "./provenance.js";
import { setToken, visible } from "./tokens.js";

const MOST = 500;
const ROW = 22; // px, as in the style sheet

/**
 * paint(table): {id, columns: [{name, unit, kind: "number" | "token" | "text", show(value) -> text, source, width}], count,
 * row(i) -> values, at(place) -> i where the table's own order is not that of its rows, order: [column, "ascending" | "descending"] at
 * first, focus: row looked at or null, position(i) -> position to light up, or hover(i) -> what bus.hover shall be}. A token is
 * [id, text, hex, flags]; words may stand in its place. A row keeps its number i from step to step.
 */
export function createDataTable(bus, label) {
  const columns = h("colgroup");
  const headRow = h("tr");
  const body = h("tbody");
  const note = h("span", { class: "small quiet", "data-testid": "table-note" });
  const root = h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label, "data-testid": "table" },
    h("table", {}, columns, h("thead", {}, headRow), body),
  );
  let rows = new Map(); // row of the table -> line drawn
  let heads = [];
  let shape = "";
  let sort = null;
  let now = null;
  let wanted = null; // line that should be in sight
  let followed = "";

  body.addEventListener("pointermove", (event) => {
    const line = event.target.closest?.("tr");
    const at = line && now ? (now.hover?.(line.index) ?? placeOf(line.index)) : null;
    bus.setHover(at && { ...at, x: event.clientX, y: event.clientY });
  });
  body.addEventListener("pointerleave", () => bus.setHover(null));

  function placeOf(i) {
    const pos = now.position?.(i) ?? null;
    return pos === null ? null : { src: "table", key: `table:${pos}`, pos };
  }

  function setColumns(table) {
    const key = `${table.id} ${table.columns.map((c) => `${c.name} ${c.unit}`)}`;
    if (key === shape) return;
    shape = key;
    sort = table.order ?? null;
    heads = table.columns.map((column, i) => head(column, () => turn(i, column)));
    columns.replaceChildren(...table.columns.map((column) => h("col", { style: { width: `${widthOf(column)}px` } })));
    headRow.replaceChildren(...heads.map((th) => th.root));
    body.replaceChildren();
    rows = new Map();
    followed = "";
  }

  // First the useful way round, then the other, then the table's own order.
  function turn(i, { kind }) {
    const first = kind === "number" ? "descending" : "ascending";
    if (sort?.[0] !== i) sort = [i, first];
    else if (sort[1] === first) sort = [i, first === "ascending" ? "descending" : "ascending"];
    else sort = null;
    root.scrollTop = 0;
    bus.changed("table");
  }

  function paint(table) {
    now = table;
    setColumns(table);
    const order = sorted(table);
    const at = table.focus === null ? -1 : order ? order.indexOf(table.focus) : table.focus;
    const from = at < MOST ? 0 : Math.min(table.count - MOST, at - MOST / 2);
    const to = Math.min(table.count, from + MOST);
    lines(
      Array.from({ length: to - from }, (_, i) => (order ? order[from + i] : own(table)(from + i))),
      table,
    );
    heads.forEach((th, i) => th.paint(table.columns[i], sort?.[0] === i ? sort[1] : null));
    setText(note, sentence(table.count, from, to));
    wanted = at < 0 ? null : { line: at - from, key: `${table.focus} ${sort}` };
  }

  // A line stays with its row: what did not change is not touched, and a new row moves the others without writing them anew.
  function lines(shown, table) {
    const keep = new Set(shown);
    const free = [...rows].filter(([i]) => !keep.has(i));
    for (const [i] of free) rows.delete(i);
    let place = body.firstChild;
    for (const i of shown) {
      const line = rows.get(i) ?? free.pop()?.[1] ?? makeLine(table.columns);
      rows.set(i, line);
      line.root.index = i;
      line.root.classList.toggle("now", i === table.focus);
      table.row(i).forEach((value, c) => line.cells[c](value));
      if (line.root === place) place = place.nextSibling;
      else body.insertBefore(line.root, place);
    }
    for (const [, line] of free) line.root.remove();
  }

  // The row looked at stays in sight; where the reader scrolled to is left alone until it is another one. Runs after the frame.
  function settle() {
    if (!wanted || wanted.key === followed || !root.clientHeight) return;
    followed = wanted.key;
    const [top, seen, height] = [wanted.line * ROW, root.scrollTop, root.clientHeight];
    if (top >= seen && top + 2.2 * ROW <= seen + height) return;
    root.scrollTop = ROW * Math.max(0, Math.round((top - height / 2) / ROW));
  }

  function sorted(table) {
    if (!sort) return null;
    const [column, direction] = sort;
    const keys = Array.from({ length: table.count }, (_, i) => keyOf(table.row(i)[column]));
    const sign = direction === "ascending" ? 1 : -1;
    const order = [...keys.keys()];
    return order.sort((a, b) => compare(keys[a], keys[b], sign));
  }

  return {
    root,
    note,
    paint,
    settle,
    /** Row numbers in the order shown, all of them. */
    order: (table) => (setColumns(table), sorted(table) ?? Array.from({ length: table.count }, (_, i) => own(table)(i))),
  };
}

const own = (table) => table.at ?? ((place) => place);

const keyOf = (value) => (Array.isArray(value) ? visible(value[1]) : Number.isNaN(value) ? null : value);

// What is not known comes last, whichever way round.
function compare(a, b, sign) {
  if (a === null || b === null || a === undefined || b === undefined) return (a == null) - (b == null);
  return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
}

function sentence(count, from, to) {
  if (count <= MOST) return format.plural(count, "row");
  return `rows ${format.count(from + 1)} to ${format.count(to)} of ${format.count(count)} are shown; the CSV has all`;
}

function head({ name, unit, kind, source }, onSort) {
  const arrow = h("span", { class: "sort-arrow", "aria-hidden": "true" });
  const mark = source ? sourceMark(name) : null;
  const button = h(
    "button",
    { type: "button", title: `Sort by ${name}`, on: { click: onSort } },
    h("span", {}, name, unit ? h("span", { class: "quiet", text: `, ${unit}` }) : null),
    arrow,
  );
  const root = h("th", { scope: "col", class: kind === "number" ? "right" : null }, h("div", {}, button, mark));
  return {
    root,
    paint(column, direction) {
      setAttr(root, "aria-sort", direction);
      setText(arrow, direction === "ascending" ? "↑" : direction === "descending" ? "↓" : "");
      mark?.set(column.source);
    },
  };
}

const LEAST = { number: 50, token: 104, text: 80 };

// Columns have a set width: with one that follows the cells, every step would measure every cell.
const widthOf = ({ name, unit, kind, source, width }) =>
  Math.max(width ?? LEAST[kind], 6 * (name.length + (unit ? unit.length + 2 : 0)) + 27 + (source ? 14 : 0));

function makeLine(columns) {
  const made = columns.map(cell);
  return { root: h("tr", {}, made.map(({ td }) => td)), cells: made.map(({ set }) => set) };
}

function cell({ kind, show: write }) {
  const td = h("td", { class: kind === "number" ? "right num" : null });
  let shown;
  if (kind !== "token") {
    const set = (value) => {
      if (value === shown) return;
      shown = value;
      td.textContent = value === null || Number.isNaN(value) ? "–" : write(value);
    };
    return { td, set };
  }
  const chip = td.appendChild(h("span", { class: "tok", dir: "auto" }));
  const words = td.appendChild(h("span", { class: "quiet" }));
  const set = (value) => {
    if (value === shown) return;
    shown = value;
    show(chip, Array.isArray(value));
    if (Array.isArray(value)) setToken(chip, value);
    setText(words, typeof value === "string" ? value : "");
  };
  return { td, set };
}
