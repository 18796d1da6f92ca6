// Which rows and columns the large head shows, and how many cells the grid has room for.

export const NEAR = 48;
export const MOST_ROWS = 512; // of one head in one answer; a longer pattern comes pooled

/** [from, to): positions shown. "near" is a window that ends just after the query looked at. */
export function headWindow({ ctx, q }, mode) {
  if (mode !== "near" || ctx <= NEAR) return [0, ctx];
  const to = Math.min(ctx, Math.max(NEAR, q + Math.ceil(NEAR / 6)));
  return [to - NEAR, to];
}

const SIZES = [8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512];

/** Grid size for n positions: grows in small jumps, so that a step adds a row and leaves the others where they are. */
export function capacity(n) {
  return SIZES.find((size) => size >= n) ?? Math.ceil(n / 128) * 128;
}
