// N, B, L, U: letters, because the arrows move the run's own cursor.

import { getKeys } from "../shared/keys.js";

/** Returns the way to take them away. */
export function listenStageKeys(moves, ready) {
  return getKeys().add({
    title: "Stages of the step",
    ready,
    keys: [
      { key: "n", shown: ["N"], does: "run one stage", act: moves.step },
      { key: "b", shown: ["B"], does: "one stage back", act: moves.back },
      { key: "b", shift: true, shown: ["Shift", "B"], does: "before the first stage", act: moves.start },
      { key: "l", shown: ["L"], does: "run to the end of the layer", act: moves.layer },
      { key: "u", shown: ["U"], does: "run until a breakpoint, or to the end", act: moves.run },
    ],
  });
}
