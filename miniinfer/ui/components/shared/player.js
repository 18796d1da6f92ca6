// Play is paced here: the next step is asked for only after the last one was painted, a few ahead when steps are cheap.

export const SPEEDS = [
  ["1", "1 step/s"],
  ["2", "2 steps/s"],
  ["4", "4 steps/s"],
  ["8", "8 steps/s"],
  ["15", "15 steps/s"],
  ["max", "full speed"],
];

export class Player {
  playing = false;
  hurry = false; // run to the end: show only the newest step
  #bus;
  #due = 0;
  #timer = 0;

  constructor(bus) {
    this.#bus = bus;
  }

  /** Milliseconds a step costs, from the last few. */
  get stepCost() {
    const meta = this.#bus.history?.meta ?? [];
    const lately = meta
      .slice(-4)
      .map((m) => m.ms)
      .filter((x) => x > 0);
    return lately.length ? lately.reduce((a, b) => a + b) / lately.length : 150;
  }

  /** Frames ahead: about 150 ms of the engine's time, at least one. */
  get buffer() {
    return Math.max(1, Math.min(8, Math.ceil(150 / this.stepCost)));
  }

  /** The step that should exist by now, or null. */
  get want() {
    if (!this.playing || !this.#bus.driver) return null;
    return this.#bus.cursor + this.buffer;
  }

  get interval() {
    const speed = this.#bus.prefs.speed;
    return this.hurry || speed === "max" ? 0 : 1000 / Number(speed);
  }

  toggle() {
    if (this.playing) this.stop();
    else this.start(false);
  }

  start(hurry) {
    const bus = this.#bus;
    const atEnd = bus.cursor >= bus.known;
    if (atEnd && bus.blocked) {
      if (bus.cursor === 0 || hurry) return bus.say(bus.blocked);
      bus.goto(0); // play again from the start
    }
    this.playing = true;
    this.hurry = hurry;
    this.#due = performance.now() + (hurry ? 0 : Math.min(this.interval, 120));
    bus.changed("play");
    this.pump();
  }

  stop() {
    if (!this.playing) return;
    this.playing = this.hurry = false;
    clearTimeout(this.#timer);
    this.#bus.changed("play");
    this.#bus.asks.request();
  }

  /** Called after each painted frame. */
  painted() {
    if (this.playing) this.pump();
  }

  /** Show the next step when it is due and here; ask for what is missing. */
  pump() {
    if (!this.playing) return;
    const bus = this.#bus;
    clearTimeout(this.#timer);
    const wait = this.#due - performance.now();
    if (wait > 1) this.#timer = setTimeout(() => this.pump(), wait);
    else if (bus.driver) this.#showNext();
    else if (bus.channel && !bus.asks.waiting) this.#askNext();
    bus.asks.request();
  }

  #showNext() {
    const bus = this.#bus;
    const next = this.hurry ? Math.max(bus.cursor + 1, bus.known) : bus.cursor + 1;
    if (next <= bus.known && this.#ready(next)) {
      this.#schedule();
      bus.goto(next);
    } else if (bus.cursor >= bus.known && bus.blocked) this.stop();
  }

  // A page without a workspace follows the server's cursor, so each step is an ask and its answer.
  #askNext() {
    const bus = this.#bus;
    if (bus.cursor >= bus.last && bus.blocked) return this.stop();
    this.#schedule();
    bus.forward();
  }

  #ready(step) {
    return this.#bus.history.next.has(step) || this.#bus.asks.hopeless(`detail:${step}`);
  }

  // Keep the beat; after a late step start a new one instead of catching up in a burst.
  #schedule() {
    const now = performance.now();
    this.#due = now - this.#due > this.interval ? now + this.interval : this.#due + this.interval;
  }
}
