// The transport: in the frame of every page. Streamlit calls the default export again for new data and for a new theme.

import { keepAddress } from "../shared/address.js";
import { getBus } from "../shared/bus.js";
import { listenKeys } from "../shared/keyboard.js";
import { getKeys } from "../shared/keys.js";
import { promptly } from "../shared/promptly.js";
import { readTheme } from "../shared/theme.js";
import { keepWellFormed } from "../shared/wellformed.js";
import { createBar } from "./bar.js";
import { createHelp } from "./help.js";
import { showLarge } from "./large.js";
import { askForPhraseAgain } from "./readmit.js";
import { rememberBrowser } from "./browser.js";

const mounts = new WeakMap();

export default function transport({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  const bus = getBus();
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = build(bus, parentElement)));
  const { dark } = readTheme(mount.bar.root);
  readTheme(mount.help.root);
  bus.spare = { ask: (body) => send("ask", body), waits: Boolean(data?.has_driver) };
  rememberBrowser(data?.browser);
  if (data && data !== mount.data) bus.receiveFrame((mount.data = data));
  // The server drew this page's figures for the other theme: it is asked to draw them again, once.
  const other = data && !data.has_driver && data.dark !== dark;
  if (other && mount.redrawn !== dark) setTimeout(() => bus.spare?.ask({}));
  mount.redrawn = other ? dark : null;
  mount.bar.paint();
  return () => {
    mount.stop();
    mounts.delete(parentElement);
    bus.spare = null;
    if (!bus.driver) bus.asks.dropped();
  };
}

function build(bus, parent) {
  const mount = { bar: null, data: null, stop: null, redrawn: null, help: createHelp() };
  parent.append(mount.help.root);
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
    const bar = (mount.bar = createBar(now, mount.help.open));
    if (old) old.root.replaceWith(bar.root);
    else parent.append(bar.root);
    readTheme(bar.root);
    stopPaint = now.on((dirty) => bar.paint(dirty));
    bar.paint();
  };
  showLarge(bus.prefs.large);
  use();
  const stops = [
    listenKeys(bus),
    getKeys().add(mount.help.keys),
    keepAddress(bus),
    keepWellFormed(),
    askForPhraseAgain(),
    bus.on((dirty) => (use(), shown === bus || !dirty.has("data") || mount.bar.paint())),
    () => stopPaint(),
    () => mount.bar.stop?.(),
  ];
  mount.stop = () => (stops.forEach((stop) => stop()), mount.bar.root.remove(), mount.help.root.remove());
  return mount;
}
