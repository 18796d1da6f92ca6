// Saves what a panel shows as a file: its table as CSV or Parquet, its picture as PNG. Nothing is sent anywhere.

import { drawPicture } from "./picture.js";

const FORMULA = /^(?:[\t\r]|\n*[=+\-@＝＋－＠])/; // a spreadsheet would run such a cell

/** CSV text (RFC 4180). Numbers stay as they are; null, undefined and NaN are empty cells. */
export function toCsv(header, rows) {
  return [header, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (typeof value !== "string") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveCsv(name, header, rows) {
  save(`${name}.csv`, new Blob([toCsv(header, rows)], { type: "text/csv;charset=utf-8" }));
}

/** picture: as drawPicture of picture.js takes it. Resolves when the file was handed to the browser. */
export async function savePng(name, picture) {
  const canvas = drawPicture(picture);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error(`the picture of ${canvas.width} x ${canvas.height} pixels could not be made`);
  save(`${name}.png`, blob);
}

/** Parts of a file's name: letters and digits of any script, joined by "-". */
export const fileName = (...parts) =>
  parts
    .map((part) =>
      [...String(part).toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)]
        .map(([word]) => word)
        .join("-")
        .slice(0, 40)
        .replace(/-$/, ""),
    )
    .filter(Boolean)
    .join("_");

/** Hand a file to the browser. */
export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may ask the reader where to put it first
}
