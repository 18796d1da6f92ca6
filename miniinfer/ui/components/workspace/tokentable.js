// The token strip as a table.

import { hexBytes, kindOf } from "../shared/tokens.js";
import * as col from "../shared/columns.js";
import { ahead, probabilityOf } from "./look.js";

export function tokenTable(bus, view) {
  const { history, info } = view;
  const count = ahead(view);
  return {
    id: "tokens",
    columns: [
      col.index("position"),
      col.token("token"),
      col.index("id"),
      col.percent("model's probability", history.source.next),
      col.text("at this step", 160),
      col.text("part", 100),
      col.index("chosen in step"),
      col.text("bytes", 150),
      col.text("kind", 150),
    ],
    count,
    focus: view.selected ?? view.chosen ?? (view.ctx ? view.ctx - 1 : null),
    position: (i) => i,
    row(i) {
      const token = history.tokens[i];
      const step = i >= info.prompt_len ? (history.stepOfToken[i] ?? null) : null;
      return [
        i,
        token,
        token[0],
        i < view.shown ? col.hundredfold(probabilityOf(history, i)) : null,
        state(view, i),
        i < info.prompt_len ? "prompt" : history.meta[step - 1]?.forced ? "output, forced" : "output",
        step,
        hexBytes(token[2]),
        kindOf(token) ?? "",
      ];
    },
  };
}

function state({ shown, chosen, ctx, first }, i) {
  if (i >= shown) return "a later step";
  if (i === chosen) return "chosen";
  if (i >= ctx) return "not yet through the model";
  return i >= first ? "through the model" : "in the KV cache";
}
