// What this file is: whose run, with which settings, recorded when and by what, how large, and which keys step it.

import { h } from "../shared/dom.js";
import * as format from "../shared/format.js";
import { connectMenu } from "../shared/menu.js";

const MOST_PROMPT = 600;

export function createAbout(facts) {
  const made = [facts.by || "MiniInfer", facts.at && `on ${facts.at.slice(0, 10)} at ${facts.at.slice(11, 16)} UTC`];
  const prompt = facts.prompt.length > MOST_PROMPT ? `${facts.prompt.slice(0, MOST_PROMPT)}…` : facts.prompt;
  const button = h("button", { type: "button", class: "about", "data-testid": "about", text: "About this file" });
  const list = h(
    "div",
    { class: "menu about-text", popover: "auto", role: "dialog", "aria-label": "About this file", "data-testid": "about-text" },
    h("p", {
      text: `A recorded run of ${facts.model} on ${facts.device.toUpperCase()} in ${facts.dtype}: ${format.plural(facts.prompt_tokens, "prompt token")}, ${format.plural(facts.steps, "step")}. Recorded by ${made.filter(Boolean).join(" ")}.`,
    }),
    h("p", {
      text: "Every figure was measured or computed in that run and is read from this file: attention with 8 bits a weight, the best 20 candidates of each step. The file runs no model and asks no other place for anything.",
    }),
    facts.complete
      ? null
      : h("p", { text: "The run is long, so not all attention rows are here: of one head all, of the others the newest row of its last steps." }),
    facts.measured
      ? h("p", { text: `The times of the first ${format.plural(facts.measured, "step")} were measured before the run was saved and came back.` })
      : null,
    h("p", { class: "quiet", text: facts.chat ? "The prompt, one chat message:" : "The prompt:" }),
    h("p", { class: "prompt", dir: "auto", text: prompt }),
    ...facts.settings.map((settings, i) => line(settings, facts.settings_from[i], facts.settings.length > 1)),
    h("p", { text: "Keys: right and left arrow step, space plays, Home and End go to the start and the end. #step=7 behind the address opens step 7." }),
    h("p", { class: "quiet num", text: `This file has ${format.bytesExact(facts.bytes)}.` }),
  );
  connectMenu(button, list);
  return { button, list };
}

function line(settings, from, several) {
  const words = Object.entries(settings).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
  const when = !several ? "Settings" : from ? `Settings from step ${from}` : "Settings from the next step";
  return h("p", { class: "num", text: `${when}: ${words.join(", ")}.` });
}
