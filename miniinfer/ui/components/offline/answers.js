// There is no server: an ask is answered with what the page has, which is all there is, or with a sentence.

/** A message as bus.receive takes it. */
export function answerFrom(history, facts, body) {
  const header = {
    ask: body.n,
    error: body.force ? "This page holds a recording: a token can be forced in MiniInfer, where the run is live." : null,
    note: null,
    run: history.info,
    runs: [facts.entry],
    model: { state: "ready", text: "", progress: 1 },
    last: history.last,
    cursor: body.cursor,
    meta_from: history.last + 1,
    meta: [],
    tok_from: history.tokens.length,
    tokens: [],
  };
  return { header, blob: () => null };
}
