// Where positions and layers lie on the KV canvas. Pure arithmetic, shared by drawing and pointing.

const LEFT = 34;
const BAND = 16; // prefill and decode above the cells
const AXIS = 16; // positions and blocks below them
const GROWTH = 0.26; // share of the height for the line of bytes

/** {x, top, col, row, layers, slots, allocated, bottom, growthTop, growthBottom, capacity} in CSS pixels and positions. */
export function measureKv({ info, meta }, width, height) {
  const per = 2 * info.num_layers * info.num_kv_heads * info.head_dim * info.itemsize;
  const allocated = meta ? Math.round(meta.kv_alloc / per) : 0;
  const slots = slotsShown(info, allocated);
  const growth = height > 150 ? Math.min(200, Math.round(height * GROWTH)) : 0;
  const row = (height - BAND - AXIS - growth) / info.num_layers;
  const free = width - LEFT - 4;
  const whole = Math.floor(free / slots);
  const col = whole >= 4 && whole * slots > 0.96 * free ? whole : free / slots;
  const bottom = BAND + row * info.num_layers;
  return {
    x: LEFT,
    top: BAND,
    col,
    row,
    layers: info.num_layers,
    slots,
    allocated,
    per,
    block: info.block_size,
    bottom,
    growthTop: bottom + AXIS + 4,
    growthBottom: height - 3,
    growth,
  };
}

// Room for the whole run when it is short; otherwise it doubles when needed, so that columns rarely change width.
function slotsShown(info, allocated) {
  const block = info.block_size;
  const whole = Math.ceil((info.prompt_len + Math.max(1, info.max_new) - 1) / block) * block;
  let slots = 4 * block;
  while (slots < Math.max(allocated, info.prompt_len)) slots *= 2;
  return Math.max(Math.min(slots, whole), Math.ceil(allocated / block) * block, block);
}
