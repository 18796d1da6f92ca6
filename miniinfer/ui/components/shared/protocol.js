// The message from Python: u32 little-endian header length, header JSON, blobs (offsets count from the byte after the header).

const TYPES = { u8: Uint8Array, f32: Float32Array };

/** Uint8Array -> {header, blob(name)}; blob() gives a typed array with .shape, or null. Throws on a malformed message. */
export function decode(message) {
  const all = message instanceof Uint8Array ? message : new Uint8Array(message);
  const view = new DataView(all.buffer, all.byteOffset, all.byteLength);
  const length = view.getUint32(0, true);
  if (4 + length > all.byteLength) throw new Error(`message header of ${length} bytes in ${all.byteLength}`);
  const header = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + length)));
  const blobs = header.blobs ?? {};
  return { header, blob: (name) => (Object.hasOwn(blobs, name) ? read(all, 4 + length, blobs[name], name) : null) };
}

// The bytes are copied: the history outlives the message, and a view would keep the whole message alive. Where one array is
// nearly all of it (a long run's rows of attention), a copy would only be half a megabyte of garbage for each step.
function read(all, base, [offset, size, type, shape], name) {
  const Type = TYPES[type];
  if (!Type) throw new Error(`blob ${name} has unknown type ${type}`);
  if (base + offset + size > all.byteLength) throw new Error(`blob ${name} ends after the message`);
  const view = all.subarray(base + offset, base + offset + size);
  const keeps = Type === Uint8Array && 1.1 * size > all.buffer.byteLength;
  const array = keeps ? view : new Type(view.slice().buffer);
  if (shape && shape.reduce((a, b) => a * b, 1) !== array.length)
    throw new Error(`blob ${name} does not have shape ${shape}`);
  array.shape = shape;
  return array;
}
