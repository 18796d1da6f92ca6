// The merges of a piece, played again from the message: where each part begins and which pairs have a rule.

/**
 * piece as in figures/tokenizer/payload.py -> {states, steps}. A state is {parts: [[from, to]...] in symbols, ranks, winner}; there is
 * one state more than steps.
 */
export function replay([, , , symbols, , , ranks, steps]) {
  const count = [...symbols].length;
  let parts = Array.from({ length: count }, (_, i) => [i, i + 1]);
  let now = [...ranks];
  const states = [];
  for (const [, at, before, after] of steps) {
    const winner = parts.findIndex(([from]) => from === at);
    states.push({ parts, ranks: now, winner });
    parts = [...parts.slice(0, winner), [at, parts[winner + 1][1]], ...parts.slice(winner + 2)];
    now = [...now.slice(0, winner), ...now.slice(winner + 1)];
    if (winner > 0) now[winner - 1] = before;
    if (winner < now.length) now[winner] = after;
  }
  states.push({ parts, ranks: now, winner: null });
  return states;
}

/** Characters of a text with the bytes they take: [[character, from, to]...]. */
export function characters(text) {
  let from = 0;
  return [...text].map((char) => {
    const size = new TextEncoder().encode(char).length;
    from += size;
    return [char, from - size, from];
  });
}
