// The tokens: prompt and output as chips. Underlined: through the model in this step. Ringed: chosen by it.

import { h, setAttr, setText, show, toggle } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { roving } from "../shared/roving.js";
import { inkOn } from "../shared/scales.js";
import { CONTROL, setToken, SPLIT, visible } from "../shared/tokens.js";
import { ahead, probabilityOf } from "./look.js";
import { createPanel } from "../shared/panel.js";
import { probabilityLegend } from "./legend.js";

const GAP = 4; // px between rows, as in the style sheet
const COMPACT = 90; // from this many tokens on, ids move into the tooltip
const MOST = 600; // chips at a time: the browser lays out all of them at each step
const JUMP = 200; // positions by which a longer strip moves on, so that it seldom does

export function createStrip(bus) {
  const legend = probabilityLegend();
  const colour = toggle(
    "colour by probability",
    "Colour each token by the probability the model gave it, before temperature and filters",
    (on) => bus.setPref("colour", on),
    "strip-colour",
  );
  const clear = h("button", {
    type: "button",
    class: "clear",
    text: "follow the step",
    title: "Leave the selected token (Esc)",
    "data-testid": "strip-clear",
    on: { click: () => bus.select(null) },
  });
  const panel = createPanel({ id: "tokens", name: "Tokens", controls: [clear, legend.root, colour] });
  const list = h("div", {
    class: "chips",
    role: "group",
    "aria-label": "Tokens of prompt and output",
    "data-testid": "strip",
  });
  panel.body.append(list);
  const marks = [h("span", { class: "mark", text: "prompt" }), h("span", { class: "mark output", text: "output" })];
  const earlier = more("strip-earlier", () => low - 1);
  const later = more("strip-later", () => low + chips.length);
  const chips = []; // of the positions from `low` on
  let low = 0;
  let peek = null; // {key, pos}: a position to look at as long as the step and the selection stand
  let run = null;
  let lit = null;
  let latest = null;

  list.addEventListener("pointermove", (event) => point(event.target.closest?.(".chip"), event.clientX, event.clientY));
  list.addEventListener("pointerleave", () => bus.setHover(null));
  list.addEventListener("focusin", ({ target }) => {
    const box = target.getBoundingClientRect();
    if (target.matches(":focus-visible")) point(target.closest(".chip"), box.left, box.bottom);
  });
  list.addEventListener("focusout", () => bus.setHover(null));
  list.addEventListener("click", ({ target }) => {
    const chip = target.closest(".chip");
    if (chip) choose(Number(chip.dataset.pos));
  });
  const walk = roving(list, () => chips);

  function more(testid, pos) {
    const go = () => {
      peek = { key: placeKey(latest), pos: pos() };
      bus.changed("select");
    };
    return h("button", { type: "button", class: "more-chips", "data-testid": testid, on: { click: go } });
  }

  function point(chip, x, y) {
    if (!chip) return bus.setHover(null);
    const pos = Number(chip.dataset.pos);
    bus.setHover({ src: "strip", key: `strip:${pos}`, pos, x, y });
  }

  function choose(pos) {
    const { history } = bus;
    const ctx = history.meta[bus.cursor - 1]?.ctx ?? 0;
    bus.player.stop();
    if (pos < ctx) return bus.select(bus.selection === pos ? null : pos);
    const step = history.stepOfToken[pos] ?? history.stepOfRow[pos];
    if (pos > ctx && step && step <= bus.last) return bus.goto(step);
    bus.select(null);
    bus.say(
      pos < bus.history.info.prompt_len
        ? "This prompt token has not been through the model at this step. Press the right arrow to step on."
        : "This token was chosen in this step; it goes through the model in the next one.",
    );
  }

  function paint(view, theme) {
    setAttr(colour, "aria-pressed", String(bus.prefs.colour));
    show(legend.root, bus.prefs.colour);
    legend.paint(theme);
    show(clear, view?.selected != null);
    if (!view) return empty();
    if (view.history !== run) reset(view, 0);
    const end = ahead(view);
    const [from, to] = range(view, end);
    if (from !== low) reset(view, from);
    while (low + chips.length < to) add(view, low + chips.length);
    list.classList.toggle("compact", end > COMPACT);
    for (let i = 0; i < chips.length; i++) style(view, theme, low + i, to);
    walk.paint();
    show(earlier, low > 0);
    setText(earlier, `${format.plural(low, "earlier token")}`);
    show(later, to < end);
    setText(later, `${format.plural(end - to, "later token")}`);
    setText(panel.fact, bus.notice ?? fact(view) + (bus.prefs.stepped ? "" : " · press → to step, space to play"));
    panel.fact.classList.toggle("said", bus.notice !== null);
    if (view.cursor > 0 && bus.moves > 3 && !bus.prefs.stepped) bus.setPref("stepped", true);
    show(marks[0], low === 0);
    show(marks[1], to > view.info.prompt_len && low <= view.info.prompt_len);
  }

  function empty() {
    run = null;
    low = chips.length = 0;
    list.replaceChildren(
      h("p", {
        class: "empty quiet",
        text: "The prompt's tokens will stand here. Write a prompt in the side panel to begin.",
      }),
    );
  }

  // A strip longer than MOST shows a part, with the position looked at well inside.
  function range(view, end) {
    if (end <= MOST) return [0, end];
    const pos = peek?.key === placeKey(view) ? peek.pos : focusOf(view);
    const from = Math.max(0, Math.min(Math.floor((pos - MOST / 2) / JUMP), Math.ceil((end - MOST) / JUMP)) * JUMP);
    return [from, Math.min(end, from + MOST)];
  }

  function reset(view, from) {
    run = view.history;
    low = from;
    chips.length = 0;
    list.replaceChildren(marks[0], earlier, later);
  }

  function add(view, pos) {
    const token = view.history.tokens[pos];
    const text = h("span", { class: "chip-text", dir: "auto" });
    setToken(text, token);
    const chip = h(
      "button",
      { class: "chip", type: "button", tabindex: "-1", "data-pos": pos, "data-testid": `token-${pos}` },
      text,
      h("span", { class: "chip-id", text: token[0] }),
    );
    if (pos === view.info.prompt_len) later.before(marks[1]);
    chip.classList.toggle("output", pos >= view.info.prompt_len);
    chip.classList.toggle("control", Boolean(token[3] & CONTROL));
    chip.classList.toggle("split", Boolean(token[3] & SPLIT));
    if (/\n/.test(token[1])) chip.classList.add("newline");
    chips.push(chip);
    later.before(chip);
  }

  function style(view, theme, pos, end) {
    const chip = chips[pos - low];
    const { history, first, ctx, chosen, info } = view;
    const state =
      pos >= end
        ? "gone"
        : pos >= view.shown
          ? "ahead"
          : pos === chosen
            ? "chosen"
            : pos >= ctx
              ? "waiting"
              : pos >= first
                ? "read"
                : "kept";
    const forced = pos >= info.prompt_len && Boolean(history.meta[history.stepOfToken[pos] - 1]?.forced);
    const p = bus.prefs.colour && pos < view.shown ? probabilityOf(history, pos) : null;
    const selected = pos === view.selected;
    const look = `${state} ${forced} ${selected} ${p} ${theme.key}`;
    if (chip.look === look) return;
    chip.look = look;
    show(chip, state !== "gone");
    chip.dataset.state = state;
    chip.classList.toggle("forced", forced);
    setAttr(chip, "aria-pressed", String(selected));
    setAttr(
      chip,
      "aria-label",
      `${visible(history.tokens[pos][1])}, position ${pos}, id ${history.tokens[pos][0]}${SAID[state] ?? ""}${forced ? ", forced" : ""}`,
    );
    const rgb = p === null ? null : theme.ramps.prob.at(Math.round(255 * p));
    chip.style.background = rgb ? `rgb(${rgb.join(" ")})` : "";
    chip.style.color = rgb ? inkOn(rgb) : "";
    chip.classList.toggle("coloured", rgb !== null);
  }

  // Keep the newest token in sight. Reading places makes the browser lay out the page, so this comes last.
  function settle(view) {
    latest = view;
    if (!view || !run || list.scrollHeight <= list.clientHeight) return;
    const peeking = peek?.key === placeKey(view);
    const key = `${placeKey(view)} ${peeking ? peek.pos : ""}`;
    if (list.dataset.at === key) return;
    list.dataset.at = key;
    const chip = chips[(peeking ? peek.pos : focusOf(view)) - low];
    if (!chip) return;
    const { offsetTop: top, offsetHeight: height } = chip;
    if (top >= list.scrollTop && top + height <= list.scrollTop + list.clientHeight) return;
    list.scrollTop = Math.ceil((top + height - list.clientHeight) / (height + GAP)) * (height + GAP); // whole rows
  }

  function hover(view) {
    const pos = bus.hover?.pos ?? null;
    const chip = pos === null ? null : (chips[pos - low] ?? null);
    if (lit !== chip) lit?.classList.remove("lit");
    chip?.classList.add("lit");
    lit = chip;
  }

  // Chips move when the width changes, and when style sheet or font arrive after the first picture.
  const again = () => {
    list.dataset.at = "";
    settle(latest);
  };
  const observer = new ResizeObserver(again);
  observer.observe(list);
  document.fonts.addEventListener("loadingdone", again);
  const stop = () => {
    walk.stop();
    observer.disconnect();
    document.fonts.removeEventListener("loadingdone", again);
  };

  return { root: panel.root, panel, paint, hover, settle, stop };
}

const focusOf = (view) => view.selected ?? view.chosen ?? Math.max(0, view.ctx - 1);

const placeKey = (view) => `${view?.info.id} ${view?.cursor} ${view?.selected}`;

const SAID = {
  chosen: ", chosen in this step",
  read: ", through the model in this step",
  waiting: ", not yet through the model",
  ahead: ", a later step",
};

function fact({ info, shown, meta, ctx, cursor, history }) {
  const parts = [format.plural(info.prompt_len, "prompt token")];
  const made = shown - info.prompt_len;
  if (made > 0) parts.push(`${format.count(made)} generated`);
  if (cursor === 0) parts.push("nothing computed yet");
  else if (meta?.phase === "prefill")
    parts.push(meta.n > 1 ? `prefill: ${meta.n} tokens in one pass` : `prefill: token ${ctx} of ${info.prompt_len}`);
  else if (meta) parts.push("decode: one token through the model");
  if (info.finished && cursor === history.last) parts.push(`ended (${info.finished})`);
  return parts.join(" · ");
}
