// Each panel's menu: its numbers as a table in place of its drawing, the table as CSV or Parquet, the drawing as PNG or SVG.

import { createDataTable } from "./datatable.js";
import { h, segmented, setAttr, setText, show } from "./dom.js";
import { fileName, save, saveCsv, savePng } from "./export.js";
import { icon } from "./icons.js";
import { copyText, linkTo } from "./link.js";
import { connectMenu } from "./menu.js";
import { toParquet } from "./parquet.js";
import { drawSvg } from "./picture.js";

const PATIENCE = 8000; // ms that a file waits for what it is to hold

/**
 * page: {look(bus) -> view {info: {name}, cursor, ...}, or null where there is nothing yet; origin(view) -> where its numbers come from,
 * in a sentence; linked: whether an address leads to it}; tables: [{id, label, build(bus, view) -> table of datatable.js, or null}];
 * picture(bus, view, theme) -> what savePng takes, or null.
 */
export function createTwin(bus, { look, origin, linked }, panel, tables, picture) {
  const { id, root: section } = panel;
  const name = section.getAttribute("aria-label");
  const table = createDataTable(bus, `${name}: table`);
  const choice = segmented(
    "Table of",
    tables.map(({ id: value, label }) => [value, label]),
    (value) => ((chosen = value), bus.changed("table")),
    `${id}-table-choice`,
  );
  const none = h("p", { class: "empty quiet", text: "There are no numbers here yet." });
  const back = h("button", { type: "button", class: "back", "data-testid": `${id}-table-close` }, "back to the drawing");
  const root = h(
    "div",
    { class: "twin", "data-testid": `${id}-twin` },
    h("div", { class: "bar small" }, choice, table.note, h("span", { class: "gap" }), back),
    table.root,
    none,
  );
  root.hidden = true;
  panel.body.append(root);
  let chosen = tables[0].id;
  let theme = null;

  const toggle = item("Show table", `${id}-show-table`, () => {
    show(root, root.hidden);
    section.classList.toggle("tabled", !root.hidden);
    fetch(false);
    bus.changed("table");
  });
  const csv = item("Save table as CSV", `${id}-save-csv`, () => saveTable(saveCsv));
  const parquet = item("Save table as Parquet", `${id}-save-parquet`, () => saveTable(saveParquet));
  const link = linked ? item("Copy link to this moment", `${id}-copy-link`, () => copyLink()) : null;
  const svg = picture ? item("Save picture as SVG", `${id}-save-svg`, () => saveVector()) : null;
  const png = picture ? item("Save picture as PNG", `${id}-save-png`, () => savePicture()) : null;
  back.addEventListener("click", () => (toggle.click(), button.focus())); // it goes, and the focus would go with it
  const button = h(
    "button",
    {
      class: "more",
      type: "button",
      "aria-label": `${name}: table, files${picture ? ", picture" : ""}`,
      title: `Table, files${picture ? ", picture" : ""}`,
      "data-testid": `${id}-menu`,
    },
    icon("more"),
  );
  const list = h(
    "div",
    { class: "menu panel-menu", popover: "auto", role: "menu", "aria-label": name, "data-testid": `${id}-menu-list` },
    toggle,
    csv,
    parquet,
    png,
    svg,
    link,
  );
  const stopMenu = connectMenu(button, list);
  panel.addMenu(button, list);
  list.addEventListener("beforetoggle", ({ newState }) => {
    fetch(newState === "open");
    const view = look(bus);
    setText(toggle, root.hidden ? "Show table" : "Show drawing");
    for (const el of [csv, parquet]) setAttr(el, "aria-disabled", view && built(view) ? null : "true");
    const drawn = Boolean(picture && view && theme && picture(bus, view, theme));
    for (const el of [png, svg]) if (el) setAttr(el, "aria-disabled", drawn ? null : "true");
  });

  function item(label, testid, act) {
    const el = h("button", { type: "button", role: "menuitem", text: label, "data-testid": testid });
    el.addEventListener("click", () => {
      if (el.getAttribute("aria-disabled") === "true") return;
      if (list.matches(":popover-open")) list.hidePopover();
      Promise.resolve(act()).catch((error) => bus.say(`The file could not be saved: ${error.message}.`));
    });
    return el;
  }

  async function copyLink() {
    const done = await copyText(linkTo(bus, id));
    bus.say(
      done
        ? `The link is on the clipboard: it opens this run at step ${bus.cursor} and marks “${name}”.`
        : `The browser did not let the link be copied: add &panel=${id} to the address of this page.`,
    );
  }

  // What only a table shows is asked for while it is open, and already when its menu is.
  function fetch(soon) {
    if (soon || !root.hidden) bus.tables.add(id);
    else bus.tables.delete(id);
    bus.asks.request();
  }

  // A file is whole, or there is none: what it holds was asked for when the menu was opened, and may be on its way still.
  async function whole() {
    bus.tables.add(id);
    bus.asks.request();
    for (const end = performance.now() + PATIENCE; bus.asks.lacking; await new Promise((next) => setTimeout(next, 20)))
      if (performance.now() > end) throw new Error("its numbers did not come in time; try again");
    fetch(false);
    bus.paintNow?.(); // pictures are copied from what is drawn
    return look(bus);
  }

  const built = (view) => tables.find((entry) => entry.id === chosen).build(bus, view);

  const nameOf = ({ info, cursor }, what) => fileName("miniinfer", info.name, what, `step ${cursor}`);

  // The same table for programs: a number is a number, and no text needs a guard against formulas.
  function saveParquet(file, header, rows, facts) {
    save(`${file}.parquet`, new Blob([toParquet(header, rows, facts)], { type: "application/vnd.apache.parquet" }));
  }

  async function saveTable(write) {
    const view = await whole();
    const data = view && built(view);
    if (!data) return;
    const header = data.columns.map(({ name: column, unit, source }) =>
      [column, unit && `, ${unit}`, source && ` (${source})`].filter(Boolean).join(""),
    );
    const rows = table.order(data).map((i) => data.row(i).map((v) => (Array.isArray(v) ? v[1] : v)));
    write(nameOf(view, `${name} ${data.name ?? ""}`), header, rows, { about: origin(view) });
  }

  async function savePicture() {
    const view = await whole();
    const made = view && theme && picture(bus, view, theme);
    if (made) await savePng(nameOf(view, name), made);
  }

  async function saveVector() {
    const view = await whole();
    const made = view && theme && picture(bus, view, theme);
    if (made) save(`${nameOf(view, name)}.svg`, new Blob([drawSvg(made)], { type: "image/svg+xml" }));
  }

  function paint(view, palette) {
    theme = palette;
    if (root.hidden) return;
    const data = view && built(view);
    show(choice, tables.length > 1);
    choice.choose(chosen);
    show(none, !data);
    show(table.root, Boolean(data));
    show(table.note, Boolean(data));
    if (data) table.paint(data);
  }

  return {
    paint,
    settle: () => root.hidden || table.settle(),
    stop: () => (bus.tables.delete(id), stopMenu()),
  };
}
