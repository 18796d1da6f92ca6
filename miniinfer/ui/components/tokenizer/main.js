// The tokenizer page's own component. Streamlit calls the default export again for new data and for a new theme.

import { readTheme } from "../shared/theme.js";
import { createView } from "./view.js";

// All other files of this component, so that the browser fetches them at once and not one import after the other.
import "../shared/dom.js";
import "../shared/export.js";
import "../shared/format.js";
import "../shared/icons.js";
import "../shared/picture.js";
import "../shared/scales.js";
import "../shared/svg.js";
import "../shared/tokens.js";
import "../shared/tooltip.js";
import "./ladder.js";
import "./pairs.js";
import "./picture.js";
import "./replay.js";
import "./strip.js";
import "./tip.js";

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
