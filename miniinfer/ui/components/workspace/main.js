// The workspace: all linked panels in one component. Streamlit calls the default export again for new data and for a new theme.

import { getBus } from "../shared/bus.js";
import { promptly } from "../shared/promptly.js";
import { decode } from "../shared/protocol.js";
import { readTheme } from "../shared/theme.js";
import { panelNeeds } from "./needs.js";
import { createWorkspace } from "./workspace.js";

const mounts = new WeakMap();

export default function workspace({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  const bus = getBus();
  let mount = mounts.get(parentElement);
  if (!mount) mounts.set(parentElement, (mount = { view: createWorkspace(bus, parentElement), data: null }));
  bus.driver = { ask: (body) => send("ask", body), mount };
  bus.needs = () => panelNeeds(bus);
  mount.view.useTheme(readTheme(mount.view.root));
  if (data && data !== mount.data) {
    mount.data = data;
    try {
      bus.receive(decode(data));
      bus.paintNow();
    } catch (error) {
      bus.store.error = `The page could not read a message from the server (${error.message}). Reload the page.`;
      bus.changed("data");
      throw error;
    }
  }
  return () => {
    mount.view.stop();
    mounts.delete(parentElement);
    if (bus.driver?.mount !== mount) return;
    bus.driver = bus.needs = null;
    bus.player.stop();
    bus.asks.dropped();
  };
}
