// One batch as the browser knows it. It has the face of the bus (cursor, target, player, ...), so that transport and keys drive it.

import { Player } from "../shared/player.js";
import { BatchAsks } from "./batchasks.js";

export class Batch {
  info = null; // header.run
  steps = []; // steps[s - 1] is step s, as figures/batching/message.py writes it
  blocks = []; // the same: u8 [N, 4]
  aborted = {}; // place of a request -> step after which it was ended
  source = {};
  last_made = 0; // steps that exist on the server
  cursor = 0;
  target = null; // a step the user asked for that does not exist yet
  moves = 0;
  seen = 0; // last step that has been on screen or was there at the start; what play has buffered beyond stays hidden
  notice = null;
  hover = null; // {request, block, step, x, y}: lit in lanes, rows and blocks
  axis = "steps"; // or "time"
  driver = null; // {ask(body)}
  tables = new Set(); // panels whose table is open; all of it is here already
  #listeners = new Set();
  #dirty = new Set();
  #frame = 0;

  constructor(main) {
    this.main = main;
    this.asks = new BatchAsks(this);
    this.player = new Player(this);
  }

  // What transport, keys and player ask of a bus

  get prefs() {
    return this.main.prefs;
  }

  setPref(name, value) {
    this.main.setPref(name, value);
    this.changed("prefs");
  }

  get store() {
    const { info } = this;
    const summary = info ? `${info.model} · ${info.device} · ${info.dtype}` : "";
    const ms = this.cursor ? this.steps[this.cursor - 1].ms : null;
    return { runs: [], model: this.main.store.model, frame: { summary, ms } };
  }

  get run() {
    if (!this.info) return null;
    const { id, name } = this.info;
    const finished = this.ended ? "batch" : null;
    return { run: id, name, kind: "live", last: this.last, finished, history: null, mixed: true, said: this.said };
  }

  get history() {
    return { meta: this.steps, next: { has: () => true } };
  }

  get channel() {
    return this.driver;
  }

  get known() {
    return this.steps.length;
  }

  get last() {
    return Math.min(Math.max(this.seen, this.cursor), this.known);
  }

  get ended() {
    return Boolean(this.info?.finished) && this.last >= this.last_made;
  }

  get blocked() {
    if (!this.info) return "There is no batch yet: press Run.";
    return this.ended ? "The batch has ended: all requests are done." : null;
  }

  get said() {
    const step = this.steps[this.cursor - 1];
    if (!step) return `Step 0: ${this.info.requests.length} requests, none has been served yet.`;
    return `Step ${step.step}: ${step.rows.length} rows, ${step.new} new tokens, ${step.waiting.length} waiting.`;
  }

  goto(step) {
    this.target = null;
    this.changed("target");
    this.#move(Math.max(0, Math.min(step, this.known)));
    this.asks.request();
  }

  forward() {
    const from = Math.max(this.target ?? 0, this.cursor);
    if (this.target === null && from < this.known) return this.goto(from + 1);
    if (this.blocked) return this.say(this.blocked);
    this.target = from + 1;
    this.changed("target");
    this.asks.request();
  }

  back() {
    this.goto((this.target === null ? this.cursor : Math.min(this.cursor + 1, this.last)) - 1);
  }

  say(text) {
    this.notice = text;
    this.changed("notice");
  }

  on(fn) {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  changed(...keys) {
    for (const key of keys) this.#dirty.add(key);
    this.#frame ||= requestAnimationFrame(() => this.#paint());
  }

  // What only the batch has

  connect(driver) {
    this.driver = driver;
    if (!driver) this.asks.dropped();
  }

  abort(request) {
    this.player.stop();
    this.asks.abort(request);
  }

  setHover(hover) {
    if (!hover && !this.hover) return;
    this.hover = hover;
    this.changed("hover");
  }

  setAxis(axis) {
    this.axis = axis;
    this.changed("axis");
  }

  /** How a request stands after the step looked at: one of LaneState's words. */
  stateOf(request, at = this.cursor) {
    return this.aborted[request] <= at ? "finished" : this.didIn(request, at);
  }

  /** What it did in a step, even if somebody ended it right after. */
  didIn(request, step) {
    const { refused, arrival } = this.info.requests[request];
    if (refused) return "refused";
    if (this.aborted[request] < step) return "finished";
    return this.steps[step - 1]?.states[request] ?? (arrival ? "pending" : "waiting");
  }

  /** The same in the word that stands beside its lane: why it is over, if it is. */
  wordOf(request) {
    const state = this.stateOf(request);
    if (this.aborted[request] !== undefined && this.aborted[request] <= this.cursor) return "aborted";
    if (state === "refused") return state;
    const reason = this.steps[this.cursor - 1]?.requests[request][6];
    return reason && state !== "idle" ? reason : state;
  }

  receive({ header, blob }) {
    const isNew = header.run.id !== this.info?.id;
    if (isNew) {
      this.steps = [];
      this.blocks = [];
      this.cursor = this.seen = 0;
      this.target = this.hover = this.notice = null;
      this.player.stop();
      this.asks.reset();
      const active = document.activeElement; // whoever has just started a batch wants to step it: space is play again
      if (active?.closest(".st-key-batching_preset, .st-key-batching_run")) active.blur();
    }
    this.info = header.run;
    this.aborted = header.aborted;
    this.source = header.source;
    this.last_made = header.last;
    if (header.from - 1 <= this.steps.length)
      header.steps.forEach((step) => {
        this.steps[step.step - 1] ??= step;
        this.blocks[step.step - 1] ??= blob(`blocks:${step.step}`);
      });
    if (isNew) {
      this.cursor = this.seen = this.known;
      if (header.run.resume > this.known && !header.run.finished) this.target = header.run.resume;
    }
    const stuck = this.asks.answered(header.ask) && this.target !== null && this.target > this.known;
    if (this.target !== null && this.target <= this.known) this.goto(this.target);
    else if (stuck && (header.error || header.run.finished)) {
      this.target = null;
      this.#move(this.known);
    }
    if (header.error) {
      this.player.stop();
      this.target = null;
      this.say(header.error);
    }
    this.changed("data", "cursor");
    this.asks.request();
  }

  #move(to) {
    if (to === this.cursor) return;
    this.cursor = to;
    this.seen = Math.max(this.seen, to);
    this.moves++;
    this.notice = null;
    this.changed("cursor");
  }

  #paint() {
    this.#frame = 0;
    const dirty = this.#dirty;
    this.#dirty = new Set();
    for (const fn of this.#listeners) fn(dirty);
    this.player.painted();
  }
}
