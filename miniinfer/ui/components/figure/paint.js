// The whole figure, in the order in which things lie on each other. The context may be a canvas's or svg.js's.

import { drawAxes, drawColourBars, drawGrounds, drawLegend, drawNotes, drawShapes } from "./chrome.js";
import { drawTrace } from "./marks.js";

export function paint(context, figure) {
  drawGrounds(context, figure);
  drawShapes(context, figure, true);
  for (const panel of figure.panels) for (const trace of panel.traces) drawTrace(context, figure, panel, trace);
  drawShapes(context, figure, false);
  drawAxes(context, figure);
  drawNotes(context, figure);
  drawLegend(context, figure);
  drawColourBars(context, figure);
}
