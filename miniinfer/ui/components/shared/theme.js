// Chrome takes its colours from Streamlit's theme; data has one accent per idea, the same in every panel.

import { contrast, hexOf, luminance, mix, ramp } from "./scales.js";

const ACCENTS = {
  light: {
    blue: "#1a5fd0",
    violet: "#8145af",
    amber: "#c38323",
    amberText: "#8a5300",
    teal: "#078985",
    tealText: "#0b6b65",
    red: "#b3261e",
    f1: "#8a5a00",
    f2: "#276adb",
    f3: "#084d50",
    f4: "#cb3b5e",
    f5: "#5456a9",
  },
  dark: {
    blue: "#6aa6ff",
    violet: "#b78cda",
    amber: "#e8a62c",
    amberText: "#f0bd5e",
    teal: "#30cabc",
    tealText: "#5fd6cc",
    red: "#ff8f87",
    f1: "#e6b45a",
    f2: "#7ea7fd",
    f3: "#70e0c8",
    f4: "#ec7ecc",
    f5: "#b1bfff",
  },
};

const RAMPS = {
  light: {
    attention: ["#8fbdf2", "#2f74d8", "#0c2f73"],
    kv: ["#d9f0ed", "#5fb8b0", "#0f7f78", "#053f3b"],
    prob: ["#fbe3ad", "#e39a0b", "#7a4300"],
  },
  dark: {
    attention: ["#1d4b8f", "#4a8ff0", "#dcebff"],
    kv: ["#12312f", "#1d7f78", "#4cc9be", "#d6fff9"],
    prob: ["#4f3604", "#c98613", "#ffe6ad"],
  },
};

const PRESS = 0.12; // share of the text's colour in a pressed or chosen background
const forced = window.matchMedia("(forced-colors: active)");
const cache = new Map();

/**
 * Read --st-* from the element, write --mi-* for the style sheet, return the palette for canvases. Same object while the theme stands.
 * Who has the system force its colours gets those for text and ground, in drawings too, and stronger lines.
 */
export function readTheme(root) {
  const css = getComputedStyle(root);
  const strong = forced.matches;
  const pick = (name, fallback) => css.getPropertyValue(`--st-${name}`).trim() || fallback;
  const bg = parse(strong ? "Canvas" : pick("background-color", "#ffffff"));
  const text = parse(strong ? "CanvasText" : pick("text-color", "#1f2328"));
  const side = strong ? bg : parse(pick("secondary-background-color", hexOf(mix(bg, text, 0.05))));
  const fonts = [pick("font", "system-ui, sans-serif"), pick("code-font", "ui-monospace, monospace")];
  const key = JSON.stringify([bg, text, side, fonts, strong]);
  if (!cache.has(key)) cache.set(key, build(key, bg, text, side, fonts, strong));
  const theme = cache.get(key);
  if (root.dataset.theme !== key) {
    root.dataset.theme = key;
    root.classList.toggle("dark", theme.dark);
    for (const [name, value] of Object.entries(theme.css)) root.style.setProperty(`--mi-${name}`, value);
  }
  return theme;
}

function build(key, bg, text, side, [font, mono], strong) {
  const dark = luminance(bg) < 0.3;
  const mode = dark ? "dark" : "light";
  const colours = {
    bg: hexOf(bg),
    side: hexOf(side),
    text: hexOf(text),
    text2: hexOf(strong ? text : quiet(bg, side, text)),
    line: hexOf(mix(bg, text, strong ? 0.6 : 0.14)),
    line2: hexOf(mix(bg, text, strong ? 0.8 : 0.28)),
    hover: hexOf(mix(bg, text, strong ? 0.2 : 0.07)),
    press: hexOf(mix(bg, text, strong ? 0.3 : PRESS)),
    ...ACCENTS[mode],
  };
  const ramps = {};
  for (const [name, stops] of Object.entries(RAMPS[mode]))
    ramps[name] = ramp(name === "kv" ? stops : [colours.bg, ...stops]);
  return { key, dark, font, mono, ...colours, ramps, css: { ...colours, font, mono } };
}

// Secondary text: as quiet as 4.6:1 allows on every background of the chrome, also under the pointer.
function quiet(bg, side, text) {
  for (let t = 0.55; t < 1; t += 0.03) {
    const colour = mix(bg, text, t);
    if ([bg, side, mix(bg, text, PRESS)].every((under) => contrast(colour, under) >= 4.6)) return colour;
  }
  return text;
}

let probe;

function parse(colour) {
  probe ??= document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = "#000";
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}
