// Next token: the distribution the draw used beside the raw one. A click on a candidate branches the run there.

import { bar, h, setAttr, setText, show } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { sourceMark } from "../shared/provenance.js";
import { roving } from "../shared/roving.js";
import { quoted, setToken, tokenText } from "../shared/tokens.js";
import { createCumulative } from "./cumulative.js";
import { CUTS } from "./cuts.js";
import { createPanel } from "../shared/panel.js";

const ROW = 23; // px, as in the style sheet

export function createNext(bus) {
  const panel = createPanel({ id: "next", name: "Next token", question: "What could come next?" });
  const mark = sourceMark("Probabilities");
  const context = h("p", { class: "after", "data-testid": "next-context" });
  const entropy = h("span", { class: "small quiet num" });
  const head = h(
    "div",
    { class: "cand-head small quiet" },
    h("span", { text: "token" }),
    h("span", {}),
    h(
      "span",
      { class: "right", title: "After temperature, penalties and filters: the odds the draw used" },
      h("i", { class: "swatch used" }),
      "used",
    ),
    h(
      "span",
      { class: "right", title: "The model's own odds, before anything was applied" },
      h("i", { class: "swatch raw" }),
      "raw",
    ),
  );
  const list = h("div", {
    class: "cands",
    role: "group",
    "aria-label": "Candidates for the next token",
    "data-testid": "next-list",
  });
  const box = h("div", { class: "cands-box" }, list); // its height in whole rows: none is cut in half
  const rest = h("div", { class: "cand rest", "data-testid": "next-rest" }, ...cells());
  const cumulative = createCumulative(bus);
  const hint = h("p", { class: "hint small quiet", "data-testid": "next-hint" });
  const content = h("div", { class: "next-content" }, head, box, rest, cumulative.root, hint);
  panel.body.append(h("div", { class: "bar" }, context, h("span", { class: "gap" }), entropy, mark), content);
  const rows = [];
  const walk = roving(list, () => rows, "down");
  let now = { view: null, next: null };
  let moved = false;

  list.addEventListener("pointermove", (event) => point(event.target.closest?.(".cand"), event.clientX, event.clientY));
  list.addEventListener("pointerleave", () => (bus.setHover(null), paintHint(null)));
  list.addEventListener("focusin", ({ target }) => paintHint(target.closest(".cand")));
  list.addEventListener("focusout", () => paintHint(null));
  list.addEventListener("click", ({ target }) => {
    const row = target.closest(".cand");
    const id = row && now.next?.ids[row.index];
    if (row && !obstacle(row)) {
      bus.player.stop();
      bus.asks.force(now.view.step, id);
    }
  });

  function point(row, x, y) {
    if (!row || !now.next) return bus.setHover(null);
    const { next, view } = now;
    const i = row.index;
    const drawn = next.ids[i] === next.token;
    const cut = next.cut[i];
    const lines = [
      ["used for the draw", cut ? "0 %" : format.percent(next.used[i])],
      ["raw", format.percent(next.raw[i])],
    ];
    if (cut) lines.push(["cut by", CUTS[cut] ?? cut]);
    if (drawn) lines.push(["", next.forced ? "forced" : next.greedy ? "the best one: chosen" : "drawn"]);
    bus.setHover({
      src: "next",
      key: `next:${view.q}.${i}`,
      pos: drawn ? view.q + 1 : null,
      token: next.toks[i],
      candidate: i,
      lines,
      x,
      y,
      beside: list.getBoundingClientRect().left,
    });
    paintHint(row);
  }

  // Why this candidate cannot be forced, or null.
  function obstacle(row) {
    const { view, next } = now;
    if (view.step === null) return "A prompt token is not drawn: change the prompt in the side panel to change it.";
    if (next.ids[row.index] === next.token) return "This is the token the run took.";
    if (bus.offline) return "This page holds a recording: a token can be forced in MiniInfer, where the run is live.";
    const { model } = bus.store;
    if (view.info.kind === "recorded" && model?.state === "ready")
      return "A recorded run cannot branch: the page Runs can make it live.";
    if (model && model.state !== "ready") return "A branch can be made as soon as the model is ready.";
    return null;
  }

  function paintHint(row) {
    const { view, next } = now;
    if (!next) return;
    if (!row)
      return setText(
        hint,
        view.step === null
          ? "These are the model's own odds at this place of the prompt."
          : view.info.kind === "recorded"
            ? "The candidates of this step, the drawn one marked."
            : "Click a token to force it: a new branch starts here, this run is kept.",
      );
    const why = obstacle(row);
    setText(
      hint,
      why ??
        `Click: force ${quoted(next.toks[row.index])} in step ${view.step}. A new branch starts; the first ${format.plural(view.q + 1, "position")} of the KV cache stay.`,
    );
  }

  function paint(view) {
    const next = view?.next ?? null;
    const same =
      now.next === next &&
      now.view?.history === view?.history &&
      now.view?.q === view?.q &&
      now.view?.selected === view?.selected &&
      now.view?.cursor === view?.cursor;
    now = { view, next };
    mark.set(next ? view.history.source.next : null);
    show(content, Boolean(next));
    if (same && next) return;
    paintContext(view);
    if (!next) return;
    setText(entropy, `entropy ${format.sig3(next.entropy[1])} nats (raw ${format.sig3(next.entropy[0])})`);
    entropy.title = "How open the choice is: 0 means one token has it all.";
    const top = Math.max(...next.used, ...next.raw, next.rest.raw, 1e-9);
    const scale = top > 0.5 ? 1 : top;
    if (box.rows !== next.ids.length) box.style.setProperty("--rows", (box.rows = next.ids.length));
    while (rows.length < next.ids.length) rows.push(list.appendChild(candidate(rows.length)));
    rows.forEach(
      (row, i) => (show(row, i < next.ids.length), i < next.ids.length && paintRow(row, next, i, scale, view)),
    );
    walk.paint();
    paintRest(next, scale, view.info);
    cumulative.paint(next, view);
    paintHint(null);
    moved = true;
  }

  // The chosen token is always in sight, also when it was an unlikely one.
  function settle() {
    if (!moved || !now.next) return; // another step may have come into view since it was painted
    moved = false;
    const at = ROW * now.next.ids.indexOf(now.next.token);
    list.scrollTop = at + ROW > list.clientHeight ? at - ROW * Math.round(list.clientHeight / ROW / 2) : 0;
  }

  function paintContext(view) {
    show(entropy, Boolean(view?.next && (view.selected === null || view.next.token !== null))); // one line holds no more
    context.classList.toggle("quiet", !view?.next);
    context.classList.toggle("line", Boolean(view?.next));
    if (!view) return setText(context, "");
    if (view.q < 0)
      return setText(
        context,
        "Nothing has been computed yet. After the first step the odds of every next token will stand here.",
      );
    const { history, q, next, selected, info } = view;
    if (info.kind === "saved")
      return setText(context, "What the model expected here comes back with the model, which is being loaded.");
    if (next === undefined) return setText(context, `Fetching what the model says after position ${q} …`);
    if (next === null)
      return setText(
        context,
        q + 1 < info.prompt_len
          ? `Prefill: ${q + 1} of ${info.prompt_len} prompt tokens are through. No token is drawn before the last. Select a token to see what the model would say after it.`
          : "The prompt is through and the run has ended without a draw. Select a token to see what the model would say after it.",
      );
    const took = next.token === null ? history.tokens[q + 1] : null;
    context.replaceChildren(
      h("span", { class: "quiet", text: selected === null ? "after " : `after position ${q} ` }),
      tokenText(history.tokens[q], selected === null ? "now" : "picked"),
      ...(took ? [h("span", { class: "quiet", text: " the text has " }), tokenText(took)] : []),
    );
  }

  function paintRow(row, next, i, scale, view) {
    const [text, bars, used, raw] = row.children;
    const cut = next.cut[i];
    const follows = next.token === null && view.history.tokens[view.q + 1]?.[0] === next.ids[i];
    row.index = i;
    setToken(text.firstChild, next.toks[i]);
    row.classList.toggle("cut", Boolean(cut));
    row.classList.toggle("drawn", next.ids[i] === next.token);
    row.classList.toggle("forced", next.forced && next.ids[i] === next.token);
    row.classList.toggle("follows", follows);
    bar(bars.children[0], next.used[i] / scale);
    bar(bars.children[1], next.raw[i] / scale);
    setText(used, cut ? `cut: ${CUTS[cut] ?? cut}` : format.percent(next.used[i]));
    setText(raw, format.percent(next.raw[i]));
    setAttr(row, "aria-disabled", obstacle(row) ? "true" : null);
    setAttr(
      row,
      "aria-label",
      `${quoted(next.toks[i])}, used ${cut ? `0, cut by ${CUTS[cut] ?? cut}` : format.percent(next.used[i])}, raw ${format.percent(next.raw[i])}${next.ids[i] === next.token ? (next.forced ? ", forced" : ", chosen") : ""}`,
    );
  }

  function paintRest(next, scale) {
    const [text, bars, used, raw] = rest.children;
    setText(text, `${format.count(next.rest.count)} others`);
    bar(bars.children[0], next.rest.used / scale);
    bar(bars.children[1], next.rest.raw / scale);
    setText(used, format.percent(next.rest.used));
    setText(raw, format.percent(next.rest.raw));
    rest.title = `${format.count(next.kept)} tokens of the vocabulary were left to draw from.`;
  }

  function hover(view) {
    const at = bus.hover;
    const i = at?.src === "cumulative" || at?.src === "next" ? at.candidate : null;
    const chosen =
      at && at.pos !== null && at.pos === (view?.q ?? -2) + 1 && now.next
        ? now.next.ids.indexOf(now.next.token ?? view.history.tokens[at.pos]?.[0])
        : -1;
    rows.forEach((row, n) => row.classList.toggle("lit", n === i || n === chosen));
    cumulative.hover(at);
  }

  return { root: panel.root, panel, paint, hover, settle, stop: walk.stop };
}

const cells = () => [
  h("span", { class: "cand-text" }),
  h("span", { class: "bars" }, h("i", { class: "used" }), h("i", { class: "raw" })),
  h("span", { class: "right num" }),
  h("span", { class: "right num quiet" }),
];

function candidate(i) {
  const row = h("button", { class: "cand", type: "button", tabindex: "-1", "data-testid": `candidate-${i}` }, ...cells());
  row.firstChild.append(h("span", { class: "tok", dir: "auto" }));
  row.index = i;
  return row;
}
