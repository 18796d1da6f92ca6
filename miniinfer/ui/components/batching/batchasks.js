// What is asked of the server for a batch: absolute targets, one ask on its way at a time, sent again when no answer comes.

export class BatchAsks {
  n = 0;
  inflight = null; // {body, tries}
  #batch;
  #soon = false;
  #timer = 0;
  #abort = null; // place of a request

  constructor(batch) {
    this.#batch = batch;
  }

  get waiting() {
    return this.inflight !== null;
  }

  request() {
    if (this.#soon) return;
    this.#soon = true;
    queueMicrotask(() => {
      this.#soon = false;
      this.#flush();
    });
  }

  abort(request) {
    this.#abort = request;
    this.request();
  }

  /** An answer came. True when it answers what was asked last. */
  answered(n) {
    if (!this.inflight || n < this.inflight.body.n) return false;
    this.#clear();
    return true;
  }

  /** The way to the server went away: ask anew on the next one. */
  dropped() {
    this.#clear();
  }

  reset() {
    this.#clear();
    this.#abort = null;
  }

  hopeless() {
    return false;
  }

  #clear() {
    clearTimeout(this.#timer);
    this.inflight = null;
  }

  #want() {
    const batch = this.#batch;
    if (!batch.info || batch.info.finished) return batch.known < batch.last_made ? batch.last_made : null;
    const want = Math.max(batch.target ?? 0, batch.player.want ?? 0);
    return want > batch.known ? want : null;
  }

  #flush() {
    const batch = this.#batch;
    if (this.inflight || !batch.driver || !batch.info) return;
    const want = this.#want();
    if (want === null && this.#abort === null) return;
    const body = { n: ++this.n, run: batch.info.id, want, have: batch.known, abort: this.#abort };
    this.#abort = null;
    this.inflight = { body, tries: 0 };
    this.#post();
  }

  // The same body with the same number: all of it is absolute, so asking twice does no harm.
  #post() {
    const { body, tries } = this.inflight;
    const steps = body.want === null ? 1 : Math.max(1, body.want - body.have);
    const patience = Math.min(30000, Math.max(1500, 4 * this.#batch.player.stepCost * steps) * 2 ** tries);
    this.#timer = setTimeout(() => {
      if (!this.inflight) return;
      this.inflight.tries++;
      this.#post();
    }, patience);
    this.#batch.driver?.ask(body);
  }
}
