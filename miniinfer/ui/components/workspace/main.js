// The workspace: all linked panels in one component. Streamlit calls the default export again for new data and for a new theme.

import { getBus } from "../shared/bus.js";
import { promptly } from "../shared/promptly.js";
import { decode } from "../shared/protocol.js";
import { readTheme } from "../shared/theme.js";
import { panelNeeds } from "./needs.js";
import { createWorkspace } from "./workspace.js";

// All other files of this component, so that the browser fetches them at once and not one import after the other.
import "../shared/asks.js";
import "../shared/canvas.js";
import "../shared/columns.js";
import "../shared/datatable.js";
import "../shared/dom.js";
import "../shared/export.js";
import "../shared/format.js";
import "../shared/history.js";
import "../shared/icons.js";
import "../shared/link.js";
import "../shared/menu.js";
import "../shared/panel.js";
import "../shared/parquet.js";
import "../shared/picture.js";
import "../shared/player.js";
import "../shared/prefs.js";
import "../shared/provenance.js";
import "../shared/scales.js";
import "../shared/store.js";
import "../shared/svg.js";
import "../shared/tokens.js";
import "../shared/tooltip.js";
import "../shared/twin.js";
import "./attention.js";
import "./attentiontables.js";
import "./bighead.js";
import "./celllines.js";
import "./cumulative.js";
import "./cuts.js";
import "./headmap.js";
import "./kv.js";
import "./kvformula.js";
import "./kvgrowth.js";
import "./kvheat.js";
import "./kvscale.js";
import "./kvtables.js";
import "./layout.js";
import "./legend.js";
import "./look.js";
import "./next.js";
import "./nextpicture.js";
import "./nexttable.js";
import "./notices.js";
import "../shared/panel.js";
import "./patterns.js";
import "./pictures.js";
import "./reads.js";
import "./step.js";
import "./steppicture.js";
import "./steptable.js";
import "./steptimes.js";
import "./strip.js";
import "./timeline.js";
import "./tokenpicture.js";
import "./tokentable.js";
import "./tooltip.js";
import "./twins.js";
import "./weights.js";
import "./window.js";

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
