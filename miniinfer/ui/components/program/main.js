// The program of a step as a map: layers x stages, with the stage that just ran marked. A click runs to a stage.

import { h, keepKeys, setAttr, setText } from "../shared/dom.js";
import { promptly } from "../shared/promptly.js";
import { readTheme } from "../shared/theme.js";
import { createGrid } from "./grid.js";
import { listenStageKeys } from "./keys.js";
import { arrive, goto, leave, place, receive } from "./place.js";

const mounts = new WeakMap();
let unlisten = null;

const moves = {
  start: () => goto(0),
  back: () => goto(place.want - 1),
  step: () => goto(place.want + 1),
  layer: () => goto(place.data.layer_ends.find((end) => end > place.want) ?? place.data.total),
  run: () => place.want < place.data.total && goto(place.want, true),
};

/** data: see figures/inside/map.py. What is asked for is a place in the program, never "one more". */
export default function program({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = build(parentElement)));
  readTheme(mount.root);
  arrive((body) => send("ask", body), mount.paint);
  unlisten ??= listenStageKeys(moves, () => place.data !== null);
  if (data && data !== mount.data) receive((mount.data = data));
  return () => {
    mounts.delete(parentElement);
    mount.stop();
    mount.root.remove();
    leave(mount.paint, () => (unlisten?.(), (unlisten = null)));
  };
}

function build(parent) {
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
    const { data, want } = place;
    if (!data) return;
    grid.shape(data);
    const [first, last] = [want === 0, want === data.total]; // not "disabled": that would take the focus away
    for (const name of ["start", "back"]) setAttr(buttons[name], "aria-disabled", first ? "true" : null);
    for (const name of ["step", "layer", "run"]) setAttr(buttons[name], "aria-disabled", last ? "true" : null);
    setText(where, `${want} of ${data.total}: ${want ? `${data.names[want - 1]} ran` : "nothing has run yet"}`);
    grid.paint(want);
  };
  parent.append(root);
  return { root, paint, data: null, stop: grid.stop };
}
