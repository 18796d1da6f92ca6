// A figure on canvas. Streamlit calls the default export again for new data and for a new theme.

import { promptly } from "../shared/promptly.js";
import { readTheme } from "../shared/theme.js";
import { createView } from "./view.js";

const mounts = new WeakMap();

/** data: the bytes of ui/figure.py. A click on a point asks with {x, y}, where the figure says that it may be picked. */
export default function figure({ data, parentElement, setTriggerValue }) {
  const send = promptly(setTriggerValue);
  let mount = mounts.get(parentElement);
  if (!mount) {
    mounts.set(parentElement, (mount = { view: createView(), data: null }));
    parentElement.append(mount.view.root);
  }
  const { view } = mount;
  view.useTheme(readTheme(view.root));
  view.onPick = (point) => send("pick", point);
  if (data && data !== mount.data) view.show((mount.data = data));
  return () => {
    view.stop();
    view.root.remove();
    mounts.delete(parentElement);
  };
}
