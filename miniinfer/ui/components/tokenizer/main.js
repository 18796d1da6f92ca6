// The tokenizer page's own component. Streamlit calls the default export again for new data and for a new theme.

import { readTheme } from "../shared/theme.js";
import { createView } from "./view.js";

const mounts = new WeakMap();

export default function tokenizer({ data, parentElement }) {
  let mount = mounts.get(parentElement);
  if (!mount) {
    mounts.set(parentElement, (mount = { view: createView(), data: null }));
    parentElement.append(mount.view.root);
  }
  mount.view.useTheme(readTheme(mount.view.root));
  if (data && data !== mount.data) mount.view.show((mount.data = data));
  return () => {
    mount.view.stop();
    mount.view.root.remove();
    mounts.delete(parentElement);
  };
}
