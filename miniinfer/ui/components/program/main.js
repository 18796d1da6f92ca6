// The program of a step as a map: layers x stages, with the stage that just ran marked. A click runs to a stage.

import { h, keepKeys, setAttr, setText } from "../shared/dom.js";
import { readTheme } from "../shared/theme.js";
import { createGrid } from "./grid.js";
import { listenStageKeys } from "./keys.js";

const mounts = new WeakMap();

/** data: see figures/inside_map.py. What is asked for is a place in the program, never "one more". */
export default function program({ data, parentElement, setTriggerValue }) {
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = build(parentElement)));
  mount.ask = (body) => setTriggerValue("ask", body);
  readTheme(mount.root);
  if (data && data !== mount.data) mount.receive(data);
  return () => {
    mount.stop();
    mounts.delete(parentElement);
  };
}

function build(parent) {
  const mount = { data: null, want: 0, asked: 0 };
  const goto = (pc) => {
    const { total, step, run } = mount.data;
    mount.want = Math.min(Math.max(pc, 0), total);
    paint();
    mount.ask({ pc: mount.want, step, run, n: ++mount.asked });
  };
  const moves = {
    start: () => goto(0),
    back: () => goto(mount.want - 1),
    step: () => goto(mount.want + 1),
    layer: () => goto(mount.data.layer_ends.find((end) => end > mount.want) ?? mount.data.total),
    run: () => mount.ask({ go: "run", pc: mount.want, step: mount.data.step, run: mount.data.run, n: ++mount.asked }),
  };
  const button = (name, label, title) =>
    h("button", { type: "button", text: label, title, "data-testid": `program-${name}`, on: { click: moves[name] } });
  const buttons = {
    start: button("start", "Start", "Before the first stage (Shift+B)"),
    back: button("back", "Back", "One stage back (B)"),
    step: button("step", "Step", "Run one stage (N)"),
    layer: button("layer", "Layer", "Run to the end of the layer; from there, over the whole next one (L)"),
    run: button("run", "Run", "Run until a breakpoint says stop, or to the end (U)"),
  };
  const where = h("div", { class: "where num", "aria-live": "polite", "data-testid": "program-where" });
  const grid = createGrid((pc) => goto(pc));
  const bar = h("div", { class: "bar", role: "group", "aria-label": "Inside the step" }, Object.values(buttons));
  const root = keepKeys(h("div", { class: "mi mi-program", style: { visibility: "hidden" } }, bar, where, grid.root));
  const paint = () => {
    const { total, names } = mount.data;
    setAttr(buttons.start, "disabled", mount.want === 0 ? "" : null);
    setAttr(buttons.back, "disabled", mount.want === 0 ? "" : null);
    for (const name of ["step", "layer", "run"]) setAttr(buttons[name], "disabled", mount.want === total ? "" : null);
    const ran = mount.want ? `${names[mount.want - 1]} ran` : "nothing has run yet";
    setText(where, `${mount.want} of ${total}: ${ran}`);
    grid.paint(mount.want);
  };
  mount.receive = (data) => {
    mount.data = data;
    if (!data.n || data.n >= mount.asked) mount.want = data.pc; // else a newer click is on its way
    mount.asked = Math.max(mount.asked, data.n ?? 0);
    grid.shape(data);
    paint();
  };
  const unlisten = listenStageKeys(moves, () => mount.data !== null);
  mount.root = root;
  mount.stop = () => (unlisten(), root.remove());
  parent.append(root);
  return mount;
}
