// A plain table of many rows: sorted by a click on a column's head, at most MOST rows drawn, rows and cells kept from step to step.

import { h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { setToken, visible } from "../shared/tokens.js";

const MOST = 500;
const ROW = 22; // px, as in the style sheet

/**
 * paint(table): {id, columns: [{name, unit, kind: "number" | "token" | "text", show(value) -> text, source}], count, row(i) -> values,
 * order: [column, "ascending" | "descending"] | null at first, focus: row looked at or null, position(i) -> position to light up}.
 * A token is [id, text, hex, flags]; words may stand in its place.
 */
export function createDataTable(bus, label) {
  const headRow = h("tr");
  const body = h("tbody");
  const note = h("span", { class: "small quiet", "data-testid": "table-note" });
  const root = h(
    "div",
    { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label, "data-testid": "table" },
    h("table", {}, h("thead", {}, headRow), body),
  );
  const rows = []; // of the body, with .cells and .index
  let heads = [];
  let shape = "";
  let sort = null;
  let now = null;
  let height = 0;
  const observer = new ResizeObserver(([entry]) => (height = entry.contentRect.height));
  observer.observe(root);

  body.addEventListener("pointermove", (event) => {
    const row = rows[event.target.closest?.("tr")?.sectionRowIndex];
    const pos = row && now?.position ? now.position(row.index) : null;
    if (pos === null || pos === undefined) return bus.setHover(null);
    bus.setHover({ src: "table", key: `table:${pos}`, pos, x: event.clientX, y: event.clientY });
  });
  body.addEventListener("pointerleave", () => bus.setHover(null));

  function setColumns(table) {
    const key = `${table.id} ${table.columns.map((c) => `${c.name} ${c.unit}`)}`;
    if (key === shape) return;
    shape = key;
    sort = table.order ?? null;
    heads = table.columns.map((column, i) => head(column, () => turn(i, column)));
    headRow.replaceChildren(...heads.map((th) => th.root));
    for (const row of rows) row.root.remove();
    rows.length = 0;
    root.scrollTop = root.scrollLeft = 0;
    root.dataset.focus = "";
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
    while (rows.length < to - from) rows.push(line(table.columns, body));
    rows.forEach((row, i) => {
      show(row.root, from + i < to);
      if (from + i >= to) return;
      row.index = order ? order[from + i] : from + i;
      row.root.classList.toggle("now", row.index === table.focus);
      table.row(row.index).forEach((value, c) => row.cells[c].set(value, table.columns[c]));
    });
    heads.forEach((th, i) => th.paint(table.columns[i], sort?.[0] === i ? sort[1] : null));
    setText(note, sentence(table.count, from, to));
    follow(at - from, table);
  }

  // The row looked at stays in sight; where the reader scrolled to is left alone until it is another one.
  function follow(row, table) {
    const key = `${table.focus} ${sort}`;
    if (row < 0 || !height || root.dataset.focus === key) return;
    root.dataset.focus = key;
    const [top, seen] = [row * ROW, root.scrollTop];
    if (top < seen || top + 2.2 * ROW > seen + height) root.scrollTop = ROW * Math.max(0, Math.round((top - height / 2) / ROW));
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
    /** Row numbers in the order shown, all of them. */
    order: (table) => (setColumns(table), sorted(table) ?? Array.from({ length: table.count }, (_, i) => i)),
    stop: () => observer.disconnect(),
  };
}

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

function line(columns, body) {
  const cells = columns.map(({ kind }) => {
    const chip = kind === "token" ? h("span", { class: "tok", dir: "auto" }) : null;
    const words = chip ? h("span", { class: "quiet" }) : null;
    const td = h("td", { class: kind === "number" ? "right num" : null }, chip, words);
    let shown;
    return {
      td,
      set(value, column) {
        if (value === shown) return;
        shown = value;
        if (!chip) return setText(td, value === null || Number.isNaN(value) ? "–" : column.show(value));
        show(chip, Array.isArray(value));
        if (Array.isArray(value)) setToken(chip, value);
        setText(words, typeof value === "string" ? value : "");
      },
    };
  });
  const root = body.appendChild(h("tr", {}, cells.map((cell) => cell.td)));
  return { root, cells, index: 0 };
}
