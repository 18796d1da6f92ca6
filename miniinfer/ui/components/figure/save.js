// A figure as a file, with its title above it, on the page's own background.

import { save as saveFile } from "../shared/export.js";
import { paint } from "./paint.js";
import { SvgContext } from "./svg.js";
import { drawText } from "./text.js";

const PAD = 12;
const TITLE = 15;
const SHARPER = 2; // pixels of a PNG for one of the page

/** kind: "png" or "svg". Resolves when the file was handed to the browser. */
export async function save(figure, name, title, kind) {
  const [width, height] = [figure.width + 2 * PAD, figure.height + 3 * PAD + TITLE];
  const draw = (context) => {
    context.fillStyle = figure.background;
    context.fillRect(0, 0, width, height);
    const font = { ...figure.font(TITLE), colour: figure.text };
    drawText(context, title, PAD, PAD, font, { base: "top", most: width - 2 * PAD });
    context.save();
    context.translate(PAD, 2 * PAD + TITLE);
    paint(context, figure);
    context.restore();
  };
  if (kind === "svg") {
    const context = new SvgContext(width, height);
    draw(context);
    return saveFile(`${name}.svg`, new Blob([context.toString()], { type: "image/svg+xml" }));
  }
  const canvas = Object.assign(document.createElement("canvas"), { width: SHARPER * width, height: SHARPER * height });
  const context = canvas.getContext("2d");
  context.scale(SHARPER, SHARPER);
  draw(context);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error(`the picture of ${canvas.width} x ${canvas.height} pixels could not be made`);
  saveFile(`${name}.png`, blob);
}

