// The transport: in the frame of every page. Streamlit calls the default export again for new data and for a new theme.

import { keepAddress } from "../shared/address.js";
import { getBus } from "../shared/bus.js";
import { listenKeys } from "../shared/keyboard.js";
import { promptly } from "../shared/promptly.js";
import { readTheme } from "../shared/theme.js";
import { createBar } from "./bar.js";
import { rememberBrowser } from "./browser.js";

// All other files of this component, so that the browser fetches them at once and not one import after the other.
import "../shared/asks.js";
import "../shared/dom.js";
import "../shared/format.js";
import "../shared/history.js";
import "../shared/icons.js";
import "../shared/menu.js";
import "../shared/player.js";
import "../shared/prefs.js";
import "../shared/provenance.js";
import "../shared/scales.js";
import "../shared/store.js";
import "../shared/tokens.js";
import "./announce.js";
import "./runmenu.js";
import "./scrubber.js";
import "./steps.js";

const mounts = new WeakMap();

export default function transport({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  const bus = getBus();
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = build(bus, parentElement)));
  readTheme(mount.bar.root);
  bus.spare = { ask: (body) => send("ask", body), waits: Boolean(data?.has_driver) };
  rememberBrowser(data?.browser);
  if (data && data !== mount.data) bus.receiveFrame((mount.data = data));
  mount.bar.paint();
  return () => {
    mount.stop();
    mounts.delete(parentElement);
    bus.spare = null;
    if (!bus.driver) bus.asks.dropped();
  };
}

function build(bus, parent) {
  const mount = { bar: null, data: null, stop: null };
  let shown = null;
  let stopPaint = null;
  // One bar for whatever the keys drive: the run, or what a page has put in its place.
  const use = () => {
    const now = bus.page ?? bus;
    if (now === shown) return;
    const { bar: old } = mount;
    shown = now;
    stopPaint?.();
    old?.stop?.();
    const bar = (mount.bar = createBar(now));
    if (old) old.root.replaceWith(bar.root);
    else parent.append(bar.root);
    readTheme(bar.root);
    stopPaint = now.on((dirty) => bar.paint(dirty));
    bar.paint();
  };
  use();
  const stops = [
    listenKeys(bus),
    keepAddress(bus),
    bus.on((dirty) => (use(), shown === bus || !dirty.has("data") || mount.bar.paint())),
    () => stopPaint(),
    () => mount.bar.stop?.(),
  ];
  mount.stop = () => (stops.forEach((stop) => stop()), mount.bar.root.remove());
  return mount;
}
