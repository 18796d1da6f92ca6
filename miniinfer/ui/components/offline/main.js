// A recorded run as a page of its own: the workspace and the transport, fed with what the file holds. Nothing is fetched.

import { getBus } from "../shared/bus.js";
import { h, keepKeys } from "../shared/dom.js";
import { listenKeys } from "../shared/keyboard.js";
import { getKeys } from "../shared/keys.js";
import { decode } from "../shared/protocol.js";
import { readTheme } from "../shared/theme.js";
import { createBar } from "../transport/bar.js";
import { createHelp } from "../transport/help.js";
import { showLarge } from "../transport/large.js";
import { panelNeeds } from "../workspace/needs.js";
import { createWorkspace } from "../workspace/workspace.js";
import { createAbout } from "./about.js";
import { answerFrom } from "./answers.js";
import { unpackMessages } from "./unpack.js";
import { createScheme } from "./scheme.js";

const facts = JSON.parse(document.getElementById("facts").textContent);
const bus = getBus();
bus.offline = true;

const scheme = createScheme(document.documentElement);
const about = createAbout(facts);
const help = createHelp();
const bar = createBar(bus, help.open);
const top = h(
  "header",
  { class: "mi mi-top" },
  h("span", { class: "name", text: "MiniInfer" }),
  bar.root,
  about.button,
  about.list,
  scheme.button,
);
const place = h("main", {});
document.body.append(keepKeys(top), place, help.root);
showLarge(bus.prefs.large);
const view = createWorkspace(bus, place);

function useTheme() {
  readTheme(top);
  readTheme(bar.root);
  readTheme(help.root);
  view.useTheme(readTheme(view.root));
}

async function start() {
  scheme.onChange(useTheme);
  useTheme();
  const messages = await unpackMessages(document.getElementById("messages").textContent);
  for (const message of messages) bus.receive(decode(message));
  const { history } = bus;
  bus.driver = { ask: (body) => setTimeout(() => bus.receive(answerFrom(history, facts, body))) };
  bus.needs = () => panelNeeds(bus);
  history.seen = history.known;
  bus.goto(stepOfAddress() ?? facts.cursor);
  bus.on((dirty) => (bar.paint(dirty), dirty.has("cursor") && rememberStep()));
  listenKeys(bus);
  help.groups.forEach((group) => getKeys().add(group));
  window.addEventListener("hashchange", () => bus.goto(stepOfAddress() ?? bus.cursor));
  bus.changed("data", "run", "cursor", "theme", "head");
  document.body.dataset.ready = "yes";
}

// "#step=7" opens the page at a step. A file's address may change behind the # only.
function stepOfAddress() {
  const found = /^#step=(\d{1,9})(?:&|$)/.exec(location.hash);
  return found && Number(found[1]);
}

function rememberStep() {
  if (stepOfAddress() !== bus.cursor) history.replaceState(null, "", `#step=${bus.cursor}`);
}

start().catch((error) => {
  place.replaceChildren(
    h("p", { class: "mi failed", text: `This page could not read its own data (${error.message}). Save it again in MiniInfer.` }),
  );
});
