// What the panels lack for what they show now. Derived from the state each time, so a lost answer is simply asked for again.

import { look, probabilityOf } from "./look.js";
import { headWindow, MOST_ROWS } from "./window.js";

const PATTERN_ASK = 1e6; // bytes of rows per ask while filling the patterns of all heads
const PATTERN_ALL = 12e6; // and in all; older rows stay unknown and are drawn so

/** [{key, kind, value}...]; kind gap | detail | head | exact | row | probs. */
export function panelNeeds(bus) {
  const view = look(bus);
  if (!view) return [];
  const { history, cursor, q, ctx } = view;
  if (view.info.kind === "saved") return []; // all that is there has been sent; the model brings the rest
  const out = [];
  if (history.gap)
    out.push({ key: `gap:${history.meta.length}:${history.tokens.length}:${history.kvCount}`, kind: "gap" });
  const to = bus.player.playing ? Math.min(cursor + bus.player.buffer, history.known) : cursor;
  for (let step = Math.max(1, cursor); step <= to; step++) if (!complete(history, step)) out.push(detail(step));
  const looking = view.selected !== null && (view.next === undefined || !(history.rowsOf(q) || history.lacks(q)));
  if (looking) out.push({ key: `row:${q}`, kind: "row", value: q });
  if (ctx > 0 && bus.head) {
    out.push(...headNeed(view, bus.head, headWindow(view, bus.prefs.window)));
    out.push(...exactNeed(view, bus.head));
  }
  if ((bus.prefs.colour || bus.tables.has("tokens")) && ctx > 0) out.push(...probNeed(view));
  if (bus.prefs.map === "patterns" && !bus.player.playing) out.push(...patternNeeds(view));
  return out;
}

const detail = (step) => ({ key: `detail:${step}`, kind: "detail", value: step });

const complete = (history, step) => history.next.has(step) && history.rows.has(step);

// New tokens bring their probability with the step's details; so this is asked for the prompt, and after a jump.
function probNeed({ history, shown }) {
  const from = history.probs.length;
  for (let pos = Math.max(1, from); pos < shown; pos++) {
    if (probabilityOf(history, pos) === null) return [{ key: `probs:${from}:${pos}`, kind: "probs", value: from }];
  }
  return [];
}

function headNeed({ history, cursor }, [layer, head], [from, to]) {
  const pooled = history.pooled.get(`${layer}.${head}`)?.to ?? 0;
  for (let row = to - from > MOST_ROWS ? Math.max(from, pooled) : from; row < to; row++) {
    if (history.row(layer, head, row)) continue;
    const step = history.stepOfRow[row];
    if (step === cursor) return []; // on its way with the step's details
    // More rows than are sent come as a pooled map of all of them.
    const first = to - from > MOST_ROWS ? 0 : row;
    return [{ key: `head:${layer}.${head}:${row}:${to}`, kind: "head", value: [layer, head, first, to] }];
  }
  return [];
}

// A recorded run has 8 bits of each weight and no more.
function exactNeed({ history, info, q, cursor }, [layer, head]) {
  if (info.kind !== "live" || q < 0 || history.exactRow(layer, head, q)) return [];
  if (history.stepOfRow[q] === cursor && !complete(history, cursor)) return []; // comes with the step's details
  return [{ key: `exact:${layer}.${head}:${q}`, kind: "exact", value: [layer, head, q] }];
}

function patternNeeds({ history, info, cursor }) {
  const out = [];
  const cost = (step) => info.num_layers * info.num_heads * history.meta[step - 1].ctx;
  let all = 0;
  let now = 0;
  for (let step = cursor - 1; step > 0; step--) {
    if (history.maps.has(step)) break; // a prefill's map covers everything before it
    all += cost(step);
    if (all > PATTERN_ALL) break;
    if (complete(history, step)) continue;
    now += cost(step);
    if (now > PATTERN_ASK && out.length) break;
    out.push(detail(step));
  }
  return out;
}
