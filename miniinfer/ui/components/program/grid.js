// The map itself: one small button a stage. Tab goes to the stage that just ran, the arrows move from there.

import { h, setAttr } from "../shared/dom.js";
import { bindWithin } from "../shared/keys.js";

const MAP = {
  inside: true,
  title: "In the map of stages that has the focus (Tab)",
  keys: [
    { key: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], shift: null, name: "move", shown: ["← ↑ ↓ →"], does: "walk from stage to stage" },
    { key: "Enter", name: "press", shown: ["Enter"], does: "run to the stage" },
  ],
};

export function createGrid(onPick) {
  const root = h("div", { class: "grid", role: "group", "aria-label": "The program of the step, stage by stage" });
  let cells = []; // by place in the program
  let columns = 0;
  let first = 0; // cells before the layers
  let shaped = "";

  const shape = (data) => {
    const key = JSON.stringify([data.names, data.columns, data.before, data.marked]);
    if (key === shaped) return;
    shaped = key;
    columns = data.columns.length;
    first = data.before;
    const inLayers = data.layers * columns;
    cells = data.names.map((name, place) => cell(data, name, place, onPick));
    const line = (from, to) => h("div", { class: "line" }, cells.slice(from, to));
    const heads = data.columns.map((name, i) =>
      h("div", { class: i === data.mlp ? "head mlp" : "head" }, h("span", { text: name })),
    );
    const rows = [];
    for (let layer = 0; layer < data.layers; layer++) {
      const from = first + layer * columns;
      rows.push(h("div", { class: "row-name num", text: String(layer) }), ...cells.slice(from, from + columns));
    }
    cells.slice(first, first + inLayers).forEach((c, i) => i % columns === data.mlp && c.classList.add("mlp"));
    root.replaceChildren(
      line(0, first),
      h("div", { class: "layers", style: { "--columns": String(columns) } }, h("div", { class: "corner", text: "layer" }), heads, rows),
      line(first + inLayers, cells.length),
    );
  };

  const stop = bindWithin(root, MAP, {
    move: ({ key, target }) => {
      const place = cells.indexOf(target);
      if (place < 0) return false;
      const moved = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
      cells[Math.min(Math.max(place + moved, 0), cells.length - 1)].focus();
    },
  });

  let shown = -1;
  const paint = (pc) => {
    cells.forEach((el, place) => {
      el.classList.toggle("done", place < pc - 1);
      el.classList.toggle("now", place === pc - 1);
      setAttr(el, "tabindex", place === Math.max(pc - 1, 0) ? "0" : "-1");
      setAttr(el, "aria-current", place === pc - 1 ? "step" : null);
    });
    if (pc !== shown) cells[Math.max(pc - 1, 0)]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    shown = pc;
  };
  return { root, shape, paint, stop };
}

function cell(data, name, place, onPick) {
  const inLayer = place >= data.before && place < data.before + data.layers * data.columns.length;
  const label = inLayer ? `layer ${Math.floor((place - data.before) / data.columns.length)}, ${name}` : name;
  const marked = data.marked === place + 1;
  return h("button", {
    type: "button",
    class: `${inLayer ? "cell" : "cell named"}${marked ? " hit" : ""}`,
    text: inLayer ? null : name.replace("processor_", "p"),
    title: `${label}: ${data.sentences[name]}${marked ? " A breakpoint stopped here." : ""} Click to run to it.`,
    "aria-label": `Run to ${label}`,
    "data-testid": `stage-${place}`,
    on: { click: () => onPick(place + 1) },
  });
}
