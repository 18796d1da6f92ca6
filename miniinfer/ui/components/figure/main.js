// A figure on canvas. Streamlit calls the default export again for new data and for a new theme.

import { readTheme } from "../shared/theme.js";
import { createView } from "./view.js";

// All other files of this component, so that the browser fetches them at once and not one import after the other.
import "../shared/dom.js";
import "../shared/export.js";
import "../shared/picture.js";
import "../shared/scales.js";
import "../shared/svg.js";
import "./chrome.js";
import "./hover.js";
import "./marks.js";
import "./paint.js";
import "./place.js";
import "./ranges.js";
import "./read.js";
import "./save.js";
import "./svg.js";
import "./text.js";
import "./ticks.js";

const mounts = new WeakMap();

/** data: the bytes of ui/figure.py. A click on a point asks with {x, y}, where the figure says that it may be picked. */
export default function figure({ data, parentElement, setTriggerValue }) {
  let mount = mounts.get(parentElement);
  if (!mount) {
    mounts.set(parentElement, (mount = { view: createView(), data: null }));
    parentElement.append(mount.view.root);
  }
  const { view } = mount;
  view.useTheme(readTheme(view.root));
  view.onPick = (point) => setTriggerValue("pick", point);
  if (data && data !== mount.data) view.show((mount.data = data));
  return () => {
    view.stop();
    view.root.remove();
    mounts.delete(parentElement);
  };
}
