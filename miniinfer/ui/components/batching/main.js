// The picture of a batch: lanes, rows and blocks in one component. Streamlit calls the default export again for new data and themes.

import { getBus } from "../shared/bus.js";
import { promptly } from "../shared/promptly.js";
import { decode } from "../shared/protocol.js";
import { readTheme } from "../shared/theme.js";
import { Batch } from "./batch.js";
import { createView } from "./view.js";

const mounts = new WeakMap();

export default function batching({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  const main = getBus();
  const batch = (main.batch ??= new Batch(main)); // it outlives a change of view or page
  let mount = mounts.get(parentElement);
  if (!mount) {
    mounts.set(parentElement, (mount = { view: createView(batch, parentElement), data: null }));
    main.player.stop(); // the keys and the transport now drive the batch
  }
  main.standIn(batch);
  batch.connect({ ask: (body) => send("ask", body), mount });
  mount.view.useTheme(readTheme(mount.view.root));
  if (data && data !== mount.data) {
    mount.data = data;
    try {
      batch.receive(decode(data));
    } catch (error) {
      batch.say(`The page could not read a message from the server (${error.message}). Reload the page.`);
      throw error;
    }
  }
  return () => {
    mount.view.stop();
    mounts.delete(parentElement);
    if (batch.driver?.mount !== mount) return;
    batch.player.stop();
    batch.connect(null);
    main.standIn(null);
  };
}
