// What a reader chose to look at; kept in the browser, never sent.

const KEY = "miniinfer.view";

const DEFAULTS = {
  map: "rows",
  hideFirst: false,
  norm: "k",
  colour: false,
  speed: 4,
  window: "all",
  columns: null,
  rows: null,
  stepped: false,
  large: false,
};

export function loadPrefs() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...DEFAULTS }; // storage may be switched off, or hold something else
  }
}

export function savePrefs(prefs) {
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs));
  } catch {
    // Nothing is lost but the memory of a choice.
  }
}
