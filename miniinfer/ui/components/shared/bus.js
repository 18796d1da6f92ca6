// One object on window that both components share: history, cursor, selection, hover. It outlives a change of page.

import { Asks } from "./asks.js";
import { Coming } from "./coming.js";
import { Player } from "./player.js";
import { loadPrefs, savePrefs } from "./prefs.js";
import { ENDS, fromHistory } from "./runfacts.js";
import { Store } from "./store.js";

/** The bus of this page; made by whichever component loads first. */
export const getBus = () => (window.__miniinfer ??= new Bus());

class Bus {
  store = new Store();
  prefs = loadPrefs();
  driver = null; // the workspace: {ask(body)}; it is asked first
  spare = null; // the transport: {ask(body), waits} for pages without a workspace
  needs = null; // set by the workspace: () => what the panels lack
  cursor = 0;
  target = null; // a step the user asked for that does not exist yet
  moves = 0; // counts cursor moves, to tell whether an answer is older than the user's last action
  selection = null; // position looked at, or null: follow the step
  hover = null; // {pos, ...}: lit everywhere, see tooltip.js
  head = null; // [layer, head]
  tables = new Set(); // ids of the panels whose numbers are shown, or may be saved in the next moment
  notice = null; // one sentence for the status line
  page = null; // what transport and keys drive in place of the run: a batch, on its page
  offline = false; // a page of its own, without a server
  batch = null; // the batch of the batching page; see batching/batch.js
  #canvases = new Set();
  #listeners = new Set();
  #dirty = new Set();
  #frame = 0;
  #met = new Set(); // ids of the runs that have been in view
  #touched = false; // the user moved since the run came into view

  constructor() {
    this.asks = new Asks(this);
    this.player = new Player(this);
    this.coming = new Coming();
  }

  /**
   * fn(dirty: Set of keys) runs once a frame in which something changed; `canvas` ones come first, because drawing text on a
   * canvas makes the browser work out all styles changed before it. Returns the way to stop it.
   */
  on(fn, canvas = false) {
    const set = canvas ? this.#canvases : this.#listeners;
    set.add(fn);
    return () => set.delete(fn);
  }

  changed(...keys) {
    for (const key of keys) this.#dirty.add(key);
    this.#frame ||= requestAnimationFrame(() => this.#paint());
  }

  /**
   * Paint in this very task what changed: for an answer of the server, which comes when the browser is idle. The next frame
   * would begin up to 16 ms later, and then do both, this work and the layout.
   */
  paintNow() {
    if (!this.#frame) return;
    cancelAnimationFrame(this.#frame);
    this.#paint();
  }

  #paint() {
    this.#frame = 0;
    const dirty = this.#dirty;
    this.#dirty = new Set();
    for (const fn of [...this.#canvases, ...this.#listeners]) fn(dirty);
    this.player.painted();
  }

  get history() {
    return this.store.history;
  }

  get channel() {
    return this.driver ?? (this.spare && !this.spare.waits ? this.spare : null);
  }

  /** Let transport and keys drive something with the face of this bus; null: the run again. */
  standIn(page) {
    if (this.page === page) return;
    this.page = page;
    this.changed("page");
  }

  /** What the transport needs to know of the run, from the history or, on other pages, from the transport's own data. */
  get run() {
    const { history, frame } = this.store;
    // What the transport was told on a page with a workspace is as old as that page: the history knows better.
    if (history && (this.driver || frame?.has_driver)) return fromHistory(history);
    return frame?.run ? frame : history ? fromHistory(history) : null;
  }

  get last() {
    return this.run?.last ?? 0;
  }

  /** Why no further step can be made, or null. */
  get blocked() {
    const run = this.run;
    if (!run) return "There is no run yet.";
    if (run.finished) return ENDS[run.finished] ?? "This run has ended.";
    const kind = run.kind ?? this.store.runs.find((other) => other.id === run.run)?.kind;
    const loading = this.store.model?.state !== "ready" && this.store.model?.state !== "failed";
    if (kind === "saved")
      return `This saved run ${loading ? "goes on when its model is loaded." : "cannot go on: its model is not there."}`;
    if (this.offline) return "The recording ends here.";
    if (kind === "recorded") {
      return `This recorded run ends here. ${loading ? "It can go on when the model is loaded." : "Start a new run in the side panel."}`;
    }
    return null;
  }

  /** A message from Python for the workspace: {header, blob} of protocol.js. */
  receive(message) {
    const { header } = message;
    const was = this.history?.info;
    const asked = this.asks.inflight?.body;
    const before = this.history?.last ?? 0;
    const isFirst = this.store.current === null && this.store.frame?.run === header.run?.id;
    const isNew = this.store.merge(message, this.cursor);
    // The example has gone live: the same run under a new name, so what the user did in this very moment still holds.
    const wentLive = was?.kind === "recorded" && !header.run.resumed && !header.runs.some((run) => run.id === was.id);
    const cameBack = was?.kind === "saved" && was.id === header.run.id && header.run.kind !== "saved";
    if (isNew || cameBack) this.#switched(header, (isFirst && this.#touched) || wentLive || cameBack);
    else if (this.asks.answered(header.ask)) this.#adopt(header.cursor);
    // Steps that were made on another page have been on screen there.
    if (this.history) this.history.seen = Math.max(this.history.seen, this.cursor);
    const answered = asked && !this.asks.waiting;
    if (answered && !isNew && asked.want !== null && (this.history?.last ?? 0) <= before) this.#stuck();
    this.#settleTarget();
    this.changed("data");
    this.asks.request();
  }

  /** The transport's own data; it leads only on pages without a workspace. */
  receiveFrame(frame) {
    const { store } = this;
    const isNew = !frame.has_driver && store.frame !== null && store.frame.run !== frame.run;
    store.frame = frame;
    // Loading progress comes this way also while a workspace is mounted.
    store.model = frame.model ?? store.model;
    store.runs = frame.runs ?? store.runs;
    if (frame.has_driver && !this.history && !this.#touched) this.#adopt(frame.cursor);
    else if (!this.driver && !frame.has_driver) {
      const other = frame.run !== this.store.current && this.store.histories.has(frame.run);
      if (other) this.store.current = frame.run;
      if (this.asks.answered(frame.ask ?? this.asks.n)) this.#adopt(frame.cursor);
      else if (this.moves === 0) this.#adopt(frame.cursor);
      if (isNew) this.#goOn(frame.last === 0, frame.cursor);
    }
    this.#settleTarget();
    this.changed("data");
    this.asks.request();
  }

  // keepsPlace: the user has been in this run already, in the transport or in its recording, and stays where they are.
  #switched(header, keepsPlace) {
    const wanted = keepsPlace ? (this.target ?? this.cursor) : null;
    this.#touched = false;
    this.asks.reset(header.cursor);
    this.target = this.selection = this.hover = this.notice = null;
    const { num_layers, num_heads, default_head } = header.run;
    // A recording is made to be looked at in one head first, and a long one has the whole pattern of no other.
    const shown = header.run.kind === "recorded" && !this.#met.has(header.run.id);
    this.#met.add(header.run.id);
    if (header.run.kind === "saved") this.head = null;
    else if (shown || !this.head || this.head[0] >= num_layers || this.head[1] >= num_heads) this.head = default_head ?? [0, 0];
    this.cursor = Math.min(wanted ?? header.cursor, this.known);
    if (wanted > this.known && !this.blocked) this.target = wanted;
    this.#goOn(header.last === 0 && !keepsPlace, header.cursor);
    this.moves++;
    this.changed("run", "cursor", "select", "head", "hover");
  }

  // Steps that were asked for before the new run was seen.
  #goOn(fresh, cursor) {
    const steps = this.coming.take(fresh);
    if (!steps || this.blocked) return;
    this.target = cursor + steps;
    this.changed("target");
  }

  // The server answered without making the step: stop asking, and say so.
  #stuck() {
    this.target = null;
    this.player.stop();
    if (this.blocked) return;
    const { model, error } = this.store;
    this.say(error ?? (model && model.state !== "ready" ? model.text : "The engine made no further step."));
    this.changed("target");
  }

  // A step asked for may exist although its answer went to another page; or the run has ended, which was not known then.
  #settleTarget() {
    if (this.target === null || !this.channel) return;
    if (this.target <= this.known) return this.goto(this.target);
    if (!this.blocked) return;
    this.target = null;
    this.changed("target");
    if (this.asks.waiting) this.asks.dropped();
  }

  // Take the server's cursor: the answer to the last thing that was asked.
  #adopt(cursor) {
    if (this.target !== null && cursor >= this.target) this.target = null;
    this.asks.told = cursor;
    this.#move(Math.min(cursor, this.known));
    this.changed("target");
  }

  /** Go to a step that exists. */
  goto(step) {
    this.coming.forget();
    this.#goto(step);
  }

  #goto(step) {
    const to = Math.max(0, Math.min(step, this.known));
    this.#touched = true;
    if (this.target !== null) this.changed("target");
    this.target = null;
    this.#move(to);
    this.asks.request();
  }

  /** One step on; beyond the last one the engine makes it. Ten quick presses ask for ten steps. */
  forward() {
    const from = Math.max(this.target ?? 0, this.cursor);
    this.coming.forward();
    if (this.target === null && from < this.known) return this.#goto(from + 1);
    if (this.blocked) return this.say(this.blocked);
    this.target = from + 1;
    this.#touched = true;
    this.changed("target");
    this.asks.request();
  }

  back() {
    this.goto((this.target === null ? this.cursor : Math.min(this.cursor + 1, this.last)) - 1);
  }

  /** Last step that can be painted at once. */
  get known() {
    return this.driver ? (this.history?.known ?? 0) : this.last;
  }

  #move(to) {
    if (to === this.cursor) return;
    this.cursor = to;
    this.moves++;
    this.notice = null;
    this.select(null);
    if (this.driver && this.history) this.history.seen = Math.max(this.history.seen, to);
    this.changed("cursor");
  }

  select(position) {
    if (this.selection === position) return;
    this.selection = position;
    this.changed("select");
    this.asks.request();
  }

  setHead(layer, head) {
    this.head = [layer, head];
    this.changed("head");
    this.asks.request();
  }

  setHover(hover) {
    if (!hover && !this.hover) return;
    this.hover = hover;
    this.changed("hover");
  }

  setPref(name, value) {
    this.prefs[name] = value;
    savePrefs(this.prefs);
    this.changed("prefs");
    this.asks.request();
  }

  say(text) {
    this.notice = text;
    this.changed("notice");
  }
}
