// Small helpers to build elements. Text only ever enters as text nodes, so a token can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("button", {class: "x", text: "Go", on: {click: f}, style: {"--w": "3px"}, "aria-label": "Go"}, ...children) */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG elements. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") el.textContent = value;
    else if (name === "on") for (const [type, fn] of Object.entries(value)) el.addEventListener(type, fn);
    else if (name === "style") for (const [key, v] of Object.entries(value)) el.style.setProperty(key, v);
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) el.append(child);
  return el;
}

/** Write text only when it differs: no layout work and no live-region noise for an unchanged value. */
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

export function setAttr(el, name, value) {
  if (value === null || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, String(value));
}

export function show(el, visible) {
  if (el.hidden !== visible) return;
  if (!visible) passFocus(el);
  el.hidden = !visible;
}

const FOCUSABLE = "button, select, input, [tabindex]";

/** What goes away gives the focus to the nearest control that stays: else the keyboard would begin at the top of the page again. */
function passFocus(el) {
  const focused = el.getRootNode().activeElement;
  if (!focused || !el.contains(focused)) return;
  for (let around = el.parentElement; around; around = around.parentElement) {
    const near = [...around.querySelectorAll(FOCUSABLE)].filter((other) => !el.contains(other) && other.checkVisibility());
    const next = near.find((other) => el.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING) ?? near.at(-1);
    if (next) return next.focus();
    if (around.matches(".mi")) return around.focus();
  }
}

/** Length of a bar as a share of its track; scaled, because a moving width would lay out the page in every frame. */
export function bar(el, share) {
  const value = `scaleX(${Math.max(0, Math.min(1, share)).toFixed(4)})`;
  if (el.style.transform !== value) el.style.transform = value;
}

/** How much larger than its own pixels an element is drawn (large type); what the window measures is divided by it. */
export const zoomOf = (el) => el.currentCSSZoom ?? 1;

/** Where an element begins below the top of the window, in its px, were nothing scrolled. */
export const pageTop = (el) =>
  el.getBoundingClientRect().top + window.scrollY + (document.querySelector("[data-testid='stMain']")?.scrollTop ?? 0);

const motion = window.matchMedia("(prefers-reduced-motion: reduce)");

/** True when the reader asked for less motion. */
export const calm = () => motion.matches;

/** What has the focus, also inside a component; null where nothing has it. */
export function focused() {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at === document.body ? null : at;
}

/** A click with the pointer leaves no focus behind, so that space and the arrows go on to drive the run. */
export function keepKeys(root) {
  root.addEventListener("mousedown", (event) => {
    if (!event.target.closest?.("button") || event.button !== 0) return;
    event.preventDefault();
    document.activeElement?.blur();
  });
  return root;
}

/** A two-state switch: button with aria-pressed. `value` is read by paint(). */
export function toggle(label, title, onChange, testid) {
  const el = h(
    "button",
    { class: "switch", type: "button", title, "aria-pressed": "false", "data-testid": testid },
    h("span", { class: "switch-knob", "aria-hidden": "true" }),
    h("span", { text: label }),
  );
  el.addEventListener("click", () => onChange(el.getAttribute("aria-pressed") !== "true"));
  return el;
}

/** Exclusive choice: a group of buttons. options = [[value, label, title]...] */
export function segmented(label, options, onChange, testid) {
  const buttons = options.map(([value, text, title]) =>
    h("button", {
      type: "button",
      text,
      title,
      "data-value": value,
      "aria-pressed": "false",
      on: { click: () => onChange(value) },
    }),
  );
  const el = h("div", { class: "segmented", role: "group", "aria-label": label, "data-testid": testid }, buttons);
  el.choose = (value) => buttons.forEach((b) => setAttr(b, "aria-pressed", String(b.dataset.value === value)));
  return el;
}
