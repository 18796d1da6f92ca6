// The transport: in the frame of every page. Streamlit calls the default export again for new data and for a new theme.

import { keepAddress } from "../shared/address.js";
import { getBus } from "../shared/bus.js";
import { listenKeys } from "../shared/keyboard.js";
import { getKeys } from "../shared/keys.js";
import { promptly } from "../shared/promptly.js";
import { keepNumbers } from "../shared/numberfields.js";
import { readTheme } from "../shared/theme.js";
import { keepWellFormed } from "../shared/wellformed.js";
import { createAlerts } from "./alerts.js";
import { createBar } from "./bar.js";
import { createHelp } from "./help.js";
import { showLarge } from "./large.js";
import { keepPopovers } from "./popovers.js";
import { askForPhraseAgain } from "./readmit.js";
import { rememberBrowser } from "./browser.js";
import { roomOf, watchRoom } from "./room.js";

const mounts = new WeakMap();

export default function transport({ data: sent, parentElement, setTriggerValue }) {
  const data = sent?.[0]; // ui/mount.py says why it comes in a list
  const send = promptly(setTriggerValue);
  const bus = getBus();
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = build(bus, parentElement)));
  const { dark } = readTheme(mount.bar.root);
  readTheme(mount.help.root);
  bus.spare = { ask: (body) => send("ask", body), waits: Boolean(data?.has_driver) };
  rememberBrowser(data?.browser);
  if (data && data !== mount.data) bus.receiveFrame((mount.data = data));
  // The server drew this page's figures for the other theme, or for a lower window: it is asked to draw them again, once.
  const room = roomOf(mount.bar.root);
  const other = data && ((!data.has_driver && data.dark !== dark) || data.room !== room);
  const look = `${dark} ${room}`;
  if (other && mount.redrawn !== look) setTimeout(() => bus.spare?.ask({ room }));
  mount.redrawn = other ? look : null;
  mount.bar.paint();
  document.getElementById("stMain")?.setAttribute("tabindex", "-1"); // the link that skips to it works; there is nothing to do on it
  return () => {
    mount.stop();
    mounts.delete(parentElement);
    bus.spare = null;
    if (!bus.driver) bus.asks.dropped();
  };
}

function build(bus, parent) {
  const mount = { bar: null, data: null, stop: null, redrawn: null, help: createHelp() };
  const alerts = createAlerts();
  parent.append(mount.help.root, alerts.root);
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
    ...mount.help.groups.map((group) => getKeys().add(group)),
    keepAddress(bus),
    keepWellFormed(),
    keepNumbers(),
    askForPhraseAgain(),
    bus.on((dirty) => (use(), shown === bus || !dirty.has("data") || mount.bar.paint())),
    keepPopovers(),
    watchRoom(() => {
      const room = roomOf(mount.bar.root);
      if (mount.data && mount.data.room !== room) bus.spare?.ask({ room });
    }),
    alerts.stop,
    () => stopPaint(),
    () => mount.bar.stop?.(),
  ];
  mount.stop = () => (stops.forEach((stop) => stop()), mount.bar.root.remove(), mount.help.root.remove(), alerts.root.remove());
  return mount;
}
