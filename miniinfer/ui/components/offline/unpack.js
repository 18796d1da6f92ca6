// What the page holds: base64 of gzip of messages, each behind its length (u32 little-endian).

export async function unpackMessages(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const all = new Uint8Array(await new Response(stream).arrayBuffer());
  const view = new DataView(all.buffer);
  const messages = [];
  for (let at = 0; at < all.length; ) {
    const length = view.getUint32(at, true);
    messages.push(all.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return messages;
}
