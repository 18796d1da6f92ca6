// The tokenizer page's own component. Streamlit calls the default export again for new data and for a new theme.

import { readTheme } from "../shared/theme.js";
import { createView } from "./view.js";

const mounts = new WeakMap();

export default function tokenizer({ data, parentElement }) {
  let mount = mounts.get(parentElement);
  if (!mount) {
    mounts.set(parentElement, (mount = { view: createView(), written: null }));
    parentElement.append(mount.view.root);
  }
  mount.view.useTheme(readTheme(mount.view.root));
  // A move of the cursor sends the same data once more; hundreds of chips need not be made again for it.
  const written = data ? JSON.stringify(data) : mount.written;
  if (written !== mount.written) {
    mount.written = written;
    mount.view.show(data);
  }
  return () => {
    mount.view.stop();
    mount.view.root.remove();
    mounts.delete(parentElement);
  };
}
