// Which tables and which picture each panel has.

import { headsTable, patternTable, rowTable } from "./attentiontables.js";
import { bytesTable, lengthsTable } from "./kvtables.js";
import { look } from "./look.js";
import { nextPicture } from "./nextpicture.js";
import { candidateTable } from "./nexttable.js";
import { attentionPicture, kvPicture, origin } from "./pictures.js";
import { stepPicture } from "./steppicture.js";
import { stepTable } from "./steptable.js";
import { tokenPicture } from "./tokenpicture.js";
import { tokenTable } from "./tokentable.js";
import { createTwin } from "../shared/twin.js";

const page = { look, origin, linked: true };
const table = (id, label, build) => ({ id, label, build });

/** One twin a panel: {paint, stop}. */
export function createTwins(bus, { strip, attention, next, kv, step }) {
  return [
    createTwin(bus, page, strip.panel, [table("tokens", "tokens", tokenTable)], tokenPicture),
    createTwin(
      bus,
      page,
      attention.panel,
      [
        table("row", "row looked at", rowTable),
        table("heads", "all heads", headsTable),
        table("pattern", "whole head", patternTable),
      ],
      (_, view, theme) => attentionPicture(bus, view, theme, attention.canvases),
    ),
    createTwin(bus, page, next.panel, [table("next", "candidates", candidateTable)], nextPicture),
    createTwin(
      bus,
      page,
      kv.panel,
      [table("lengths", "lengths of K and V", lengthsTable), table("bytes", "bytes", bytesTable)],
      (_, view, theme) => kvPicture(bus, view, theme, kv),
    ),
    createTwin(bus, page, step.panel, [table("steps", "all steps", stepTable)], stepPicture),
  ];
}
