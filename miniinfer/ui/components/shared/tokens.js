// A token is the same thing wherever it stands: visible blanks, bytes of split characters, marks for control tokens.

import { h } from "./dom.js";

export const CONTROL = 1;
export const SPLIT = 2;

const SIGNS = new Map([
  [" ", "␣"],
  ["\n", "↵"],
  ["\t", "⇥"],
  ["\r", "␍"],
  ["\u00a0", "⍽"],
]);
// Blank, invisible, or able to turn the writing direction: shown as their code point, as models/display.py does.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u115f\u1160\u1680\u2000-\u200f\u2028-\u202f\u205f\u2800\u3000\u3164\uffa0\p{Cf}\ufe00-\ufe0f]/u;

/** Text with every character visible: "␣Paris", "↵↵", "<U+200B>"; never empty. */
export function visible(text) {
  if (text === "") return "∅";
  let out = "";
  for (const char of text) {
    const sign = SIGNS.get(char);
    if (sign) out += sign;
    else if (HIDDEN.test(char)) out += `<U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
    else out += char;
  }
  return /^\p{M}/u.test(out) ? `◌${out}` : out;
}

/** The same for a text in which blanks may stay blank: a name, a prompt. */
export const readable = (text) =>
  text
    .split(" ")
    .map((word) => word && visible(word))
    .join(" ");

/** At most `max` characters, the middle kept out. */
export function short(text, max) {
  const chars = [...text];
  return chars.length <= max ? text : `${chars.slice(0, max - 1).join("")}…`;
}

/** In a sentence: “␣Paris”. */
export const quoted = (token, max = 24) => `“${short(visible(token[1]), max)}”`;

const shown = new WeakMap(); // element -> token it shows

/** The inline chip used in sentences, tables and tooltips. */
export function tokenText(token, extra = "") {
  const el = h("span", { class: `tok ${extra}`, dir: "auto" });
  setToken(el, token);
  return el;
}

export function setToken(el, token) {
  if (shown.get(el) === token) return;
  shown.set(el, token);
  el.classList.toggle("control", Boolean(token[3] & CONTROL));
  el.classList.toggle("split", Boolean(token[3] & SPLIT));
  el.replaceChildren();
  // The signs stand for blanks: a quieter colour tells them from real characters.
  for (const part of visible(token[1]).split(/([␣↵⇥␍⍽∅]+)/u)) {
    if (part) el.append(/^[␣↵⇥␍⍽∅]/u.test(part) ? h("span", { class: "sign", text: part }) : part);
  }
}

export const hexBytes = (hex) => (hex.match(/../g) ?? []).map((b) => b.toUpperCase()).join(" ");

export function kindOf(token) {
  if (token[3] & CONTROL) return "control token";
  if (token[3] & SPLIT) return "part of a split character";
  return null;
}
