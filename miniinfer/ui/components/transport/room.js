// How much higher the window is than the one that pages are laid out for: the server draws pictures and tables higher by so much.

import { zoomOf } from "../shared/dom.js";

const LAID_OUT = 900; // px of a window that pages fit in
const STEP = 20; // px; a smaller change draws nothing anew
const MOST = 700;
const QUIET = 300; // ms without another change of the window

/** In px of the page: large type leaves less. el: of a component. */
export const roomOf = (el) => Math.max(0, Math.min(MOST, STEP * Math.floor((window.innerHeight / zoomOf(el) - LAID_OUT) / STEP)));

/** changed() runs when the window has come to rest. Returns the way to stop. */
export function watchRoom(changed) {
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(changed, QUIET);
  };
  window.addEventListener("resize", later);
  return () => (clearTimeout(timer), window.removeEventListener("resize", later));
}
