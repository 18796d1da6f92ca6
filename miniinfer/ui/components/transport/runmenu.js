// The runs as a tree: a branch stands under the run it left. Choosing one opens it.

import { h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { icon } from "../shared/icons.js";
import { connectMenu } from "../shared/menu.js";

const RECORDED = "Made by the real model in an earlier run and read from a file.";

export function createRunMenu(bus) {
  const origin = h("span", { class: "run-origin quiet" }); // a branch is named by where it left; this is what it left
  const name = h("span", { class: "run-name" });
  const badge = h("span", {
    class: "badge",
    "data-testid": "transport-recorded",
  });
  const button = h(
    "button",
    {
      class: "run",
      type: "button",
      "data-testid": "transport-runs",
    },
    origin,
    name,
    badge,
    icon("down"),
  );
  const list = h("div", {
    class: "menu run-list",
    popover: "auto",
    role: "menu",
    "aria-label": "Runs",
    "data-testid": "transport-run-list",
  });
  const root = h("div", { class: "run-menu" }, button, list);
  let painted = "";

  const stop = connectMenu(button, list);

  function paint(run) {
    const { runs } = bus.store;
    const kind = run?.kind ?? runs.find((other) => other.id === run?.run)?.kind;
    const from = trunkOf(runs, run?.run);
    setText(origin, from ? `${from} ›` : "");
    show(origin, Boolean(from));
    setText(name, run?.name ?? "No run yet");
    const alone = Boolean(run?.mixed) || bus.offline; // a batch, or the run of a file: nothing to choose
    button.classList.toggle("alone", alone);
    setAttr(button, "tabindex", alone ? "-1" : null);
    setAttr(button, "title", run ? `Runs: ${from ? `${from} › ` : ""}${run.name}` : "Runs");
    show(badge, kind === "recorded" || kind === "saved");
    setText(badge, kind === "saved" ? "saved" : "recorded");
    setAttr(badge, "title", kind === "saved" ? "Tokens, draws and times as they were saved; the model brings the rest." : RECORDED);
    const key = JSON.stringify([runs, run?.run]);
    if (key === painted) return;
    painted = key;
    list.replaceChildren(...tree(runs).map(([item, depth]) => entry(item, depth, item.id === run?.run)));
    if (!bus.offline)
      list.append(
        h("hr", {}),
        h("button", {
          type: "button",
          role: "menuitem",
          class: "item",
          style: { "--depth": 0 },
          text: "Search, save and open runs …",
          "data-testid": "transport-all-runs",
          on: { click: () => (list.hidePopover(), bus.spare?.ask({ page: "runs" })) },
        }),
      );
    if (!runs.length)
      list.append(
        h("div", {
          class: "empty quiet",
          text: "Runs will be listed here. Write a prompt in the side panel to start one.",
        }),
      );
  }

  function entry(item, depth, current) {
    const facts = [
      format.plural(item.last, "step"),
      item.kind === "recorded" || item.kind === "saved" ? item.kind : null,
      item.finished ? "ended" : null,
      item.parent !== null && item.fork_step !== null ? `from step ${item.fork_step}` : null,
    ]
      .filter(Boolean)
      .join(" · ");
    const el = h(
      "button",
      {
        type: "button",
        role: "menuitemradio",
        "aria-checked": String(current),
        class: depth ? "item fork-item" : "item",
        style: { "--depth": Math.min(depth, 6) },
        "data-testid": "transport-run",
        "data-run": item.id,
      },
      depth ? icon("branch") : null,
      h("span", { class: "item-name", text: item.name, title: item.name }),
      h("span", { class: "small quiet num", text: facts }),
    );
    el.addEventListener("click", () => {
      list.hidePopover();
      if (current) return;
      bus.player.stop();
      bus.asks.open(item.id);
    });
    return el;
  }

  return { root, paint, stop };
}

/** Name of the run at the root of a branch, or null for a run that is none. */
function trunkOf(runs, id) {
  const find = (wanted) => runs.find((run) => run.id === wanted);
  let run = find(id);
  for (let depth = 0; run && find(run.parent) && depth < runs.length; depth++) run = find(run.parent);
  return run && run.id !== id ? run.name : null;
}

/** [[run, depth]...] in the order of the list, each branch after its parent. */
function tree(runs) {
  const ids = new Set(runs.map((run) => run.id));
  const below = new Map();
  for (const run of runs) {
    const parent = ids.has(run.parent) && run.parent !== run.id ? run.parent : null;
    below.set(parent, [...(below.get(parent) ?? []), run]);
  }
  const out = [];
  const walk = (parent, depth) => {
    for (const run of below.get(parent) ?? []) {
      out.push([run, depth]);
      walk(run.id, depth + 1);
    }
  };
  walk(null, 0);
  return out;
}
