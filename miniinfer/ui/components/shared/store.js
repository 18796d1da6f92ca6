// All runs the page has seen, the list of runs the server keeps, and what the model is doing.

import { RunHistory } from "./history.js";

const CURRENT_BUDGET = 192e6; // bytes of attention rows kept for the run in view
const OTHER_BUDGET = 24e6; // and for each run that is not
const MAX_RUNS = 8;

export class Store {
  constructor() {
    this.histories = new Map(); // least recently used first
    this.current = null; // id of the run in view
    this.runs = [];
    this.model = null; // {state, text, progress}
    this.error = null;
    this.note = null; // worth knowing, nothing wrong
    this.frame = null; // the transport's own data, used where no workspace is mounted
  }

  get history() {
    return this.histories.get(this.current) ?? null;
  }

  /** Take in one workspace message. Returns true when the run in view changed. */
  merge({ header, blob }, cursor) {
    this.runs = header.runs ?? this.runs;
    this.model = header.model ?? this.model;
    this.error = header.error ?? null;
    this.note = header.note ?? null;
    if (!header.run) return false;
    const id = header.run.id;
    const isNew = this.current !== id;
    let history = this.histories.get(id);
    if (!history) history = new RunHistory(header.run);
    else this.histories.delete(id);
    this.histories.set(id, history);
    history.merge(header, blob);
    if (isNew) {
      history.opened = header.last;
      // A run that came back was on screen up to its last step, before.
      history.seen = Math.max(history.seen, Math.min(Math.max(header.cursor, header.run.resumed ?? 0), header.last));
    }
    this.current = id;
    this.#trim(cursor);
    return isNew;
  }

  #trim(cursor) {
    for (const [id, history] of this.histories) {
      if (id === this.current) history.trim(CURRENT_BUDGET, cursor);
      else if (this.histories.size > MAX_RUNS) this.histories.delete(id);
      else history.trim(OTHER_BUDGET, 0);
    }
  }
}
