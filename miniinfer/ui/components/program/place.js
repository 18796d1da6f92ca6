// Where in the program the user wants to be. It outlives the component: Streamlit takes an element away and puts it back
// when a newer run of the page overtakes an older one, and what was pressed in between must count.

const PATIENCE = 3000; // ms until an ask without an answer is sent again; longer each time
const GAP = 2000; // ms that the component may be away before it is taken for gone

export const place = { data: null, want: 0, asked: 0 };

let send = null; // to the server, while the component is there
let paint = () => {};
let timer = 0;
let gone = 0;
let request = null; // the newest ask, until it is answered
let delivered = true; // false: it was made while the component was away

/** The component is there: what it was told, how it asks, how it paints. */
export function arrive(ask, repaint) {
  send = ask;
  paint = repaint;
  clearTimeout(gone);
  if (!delivered) post();
}

/** The one that paints so was taken away; whenGone: what to do if none comes back. */
export function leave(repaint, whenGone) {
  if (paint !== repaint) return; // another one has taken its place already
  send = null;
  paint = () => {};
  clearTimeout(gone);
  gone = setTimeout(() => {
    clearTimeout(timer);
    Object.assign(place, { data: null, want: 0 });
    request = null;
    whenGone();
  }, GAP);
}

/** New data from the server. Of another step it always counts, of this one only if no newer ask is on its way. */
export function receive(data) {
  const other = data.run !== place.data?.run || data.step !== place.data?.step;
  place.data = data;
  if (other || data.n >= place.asked) {
    place.want = data.pc;
    place.asked = Math.max(place.asked, data.n);
    request = null;
    clearTimeout(timer);
  }
  paint();
}

/** Ask for a place; run: from there on to the next breakpoint. */
export function goto(pc, run = false) {
  if (!place.data) return;
  place.want = Math.min(Math.max(pc, 0), place.data.total);
  request = { pc: place.want, step: place.data.step, run: place.data.run, n: ++place.asked, ...(run ? { go: "run" } : {}) };
  paint();
  post();
}

// The same number again: the server does the same thing twice and ends in the same place.
function post(patience = PATIENCE) {
  clearTimeout(timer);
  if (!request) return;
  send?.(request);
  delivered = send !== null;
  timer = setTimeout(() => post(2 * patience), patience);
}
