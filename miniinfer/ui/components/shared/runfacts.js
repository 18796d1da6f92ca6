// What is said and known of a run, whichever component asks.

/** Why a run has ended, by its reason. */
export const ENDS = {
  stop: "The run has ended: the model chose a token that ends the text.",
  length: "The run has ended: it reached its number of new tokens.",
  context: "The run has ended: the model's context is full.",
  abort: "The run was stopped.",
};

/** The same facts as the transport's own data, from a history. */
export function fromHistory(history) {
  const { info } = history;
  return {
    run: info.id,
    name: info.name,
    kind: info.kind,
    last: history.offered,
    prompt_len: info.prompt_len,
    finished: history.offered >= history.last ? info.finished : null,
    max_new: info.max_new,
    meta: null,
    history,
  };
}
