// Which tables and which picture each panel has.

import { createTwin } from "../shared/twin.js";
import { lanesPicture, origin, poolPicture, rowsPicture } from "./pictures.js";
import { workWords } from "./rows.js";
import { blocksTable, candidatesTable, look, requestsTable, rowsTable, stepsTable } from "./tables.js";

const page = { look, origin, linked: false }; // no address leads to a batch
const table = (id, label, build) => ({ id, label, build });

/** One twin a panel: {paint, settle, stop}. */
export function createTwins(batch, panels, { lanes, pool }) {
  return [
    createTwin(
      batch,
      page,
      panels.lanes,
      [table("requests", "requests", requestsTable), table("steps", "steps", stepsTable)],
      (_, view, theme) => lanesPicture(batch, view, theme, lanes),
    ),
    createTwin(
      batch,
      page,
      panels.rows,
      [table("rows", "rows", rowsTable), table("candidates", "candidates", candidatesTable)],
      (_, view, theme) => rowsPicture(batch, view, theme, workWords),
    ),
    createTwin(
      batch,
      page,
      panels.pool,
      [table("blocks", "blocks", (_, view) => blocksTable(batch, view, pool))],
      (_, view, theme) => poolPicture(batch, view, theme, pool),
    ),
  ];
}
