// What is asked of the server: absolute targets, one ask on its way at a time, sent again when no answer comes.

const TELL_AFTER = 150; // ms; a cursor that only moved over known steps is told late, the last place wins
const GIVE_UP = 5000; // ms
const MOST_DETAILS = 16; // steps whose rows one answer may carry; the rest is asked for when it is looked at

export class Asks {
  n = 0;
  told = 0; // the cursor the server knows of
  inflight = null; // {body, keys, moves, tries}
  #bus;
  #soon = false;
  #timer = 0;
  #tell = 0;
  #failed = new Map(); // need -> {times, until}: answers that came without it
  #once = { force: null, open: null };

  constructor(bus) {
    this.#bus = bus;
  }

  /** Something may be needed: look, and ask if so. */
  request() {
    if (this.#soon) return;
    this.#soon = true;
    queueMicrotask(() => {
      this.#soon = false;
      this.#flush();
    });
  }

  /** Branch: force this token as the one chosen in that step. A second click before the answer is the same wish. */
  force(step, token) {
    if (this.#once.force || this.inflight?.body.force) return;
    this.#bus.coming.forget();
    this.#once.force = { step, token };
    this.request();
  }

  open(run) {
    this.#bus.coming.forget();
    this.#once.open = run;
    this.request();
  }

  get waiting() {
    return this.inflight !== null;
  }

  /** Something that the panels show or may save is still to come. */
  get lacking() {
    return this.#needs().length > 0;
  }

  /** An answer came. Returns true when it answers the newest ask and the user has not moved since. */
  answered(n) {
    if (!this.inflight) return n >= this.n && this.told === this.#bus.cursor;
    if (n < this.inflight.body.n) return false;
    const { moves, keys } = this.inflight;
    this.#clear();
    const missing = new Set(this.#needs().map((need) => need.key));
    for (const key of keys) {
      if (missing.has(key))
        this.#failed.set(key, { times: (this.#failed.get(key)?.times ?? 0) + 1, until: performance.now() + GIVE_UP });
      else this.#failed.delete(key);
    }
    return moves === this.#bus.moves;
  }

  /** The way to the server went away (page change): ask anew on the next one. */
  dropped() {
    this.#clear();
    this.request();
  }

  /** A need that two answers have left open is not asked for again for a while. */
  hopeless(key) {
    const failed = this.#failed.get(key);
    return failed !== undefined && failed.times >= 2 && performance.now() < failed.until;
  }

  /** Another run came into view. */
  reset(told) {
    this.#clear();
    this.#failed.clear();
    clearTimeout(this.#tell);
    this.told = told;
  }

  #clear() {
    clearTimeout(this.#timer);
    this.inflight = null;
  }

  #needs() {
    const bus = this.#bus;
    return (bus.driver && bus.needs ? bus.needs() : []).filter((need) => !this.hopeless(need.key));
  }

  #want() {
    const bus = this.#bus;
    const finished = bus.driver ? bus.history?.info.finished : bus.run?.finished;
    if (!bus.run || finished) return null;
    const want = Math.max(bus.target ?? 0, bus.player.want ?? 0);
    const last = bus.driver ? (bus.history?.last ?? 0) : bus.last;
    return want > last && !bus.blocked ? want : null;
  }

  #flush() {
    const bus = this.#bus;
    if (this.inflight || !bus.channel || !bus.run) return;
    const needs = this.#needs();
    const want = this.#want();
    const cursor = bus.target ?? bus.cursor;
    const { force, open } = this.#once;
    clearTimeout(this.#tell);
    if (want === null && !needs.length && !force && open === null) {
      if (cursor === this.told) return;
      if (bus.driver) return void (this.#tell = setTimeout(() => this.#send(needs, want, cursor), TELL_AFTER));
    }
    this.#send(needs, want, cursor);
  }

  #send(needs, want, cursor) {
    const bus = this.#bus;
    if (this.inflight || !bus.channel) return;
    const one = (kind) => needs.find((need) => need.kind === kind)?.value ?? null;
    const details = needs.filter((need) => need.kind === "detail").map((need) => need.value);
    const last = bus.history?.last ?? 0;
    if (want !== null && bus.driver) for (let step = want; step > last; step--) details.push(step);
    const body = { n: ++this.n, run: bus.run.run, want, cursor, ...this.#once };
    if (bus.driver)
      Object.assign(body, {
        have: bus.history.have,
        details: details.slice(0, MOST_DETAILS),
        head: one("head"),
        exact: one("exact") ?? (details.length && bus.head ? [...bus.head, null] : null),
        row: one("row"),
        probs: one("probs"),
      });
    this.#once = { force: null, open: null };
    this.told = cursor;
    this.inflight = { body, keys: needs.map((need) => need.key), moves: bus.moves, tries: 0 };
    this.#post();
  }

  // The same body with the same number: the server can tell a repeated ask from a new one.
  #post() {
    const { body, tries } = this.inflight;
    const bus = this.#bus;
    const steps = body.want === null ? 1 : Math.max(1, body.want - bus.last);
    const patience = Math.min(30000, Math.max(1000, 4 * bus.player.stepCost * steps) * 2 ** tries);
    this.#timer = setTimeout(() => {
      if (!this.inflight) return;
      this.inflight.tries++;
      this.#post();
    }, patience);
    bus.channel?.ask(body);
  }
}
