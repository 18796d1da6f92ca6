// Where a step lies on the scrubber. Pure arithmetic.

const PREFILL_SHARE = 0.14; // a prefill of one pass would be a hair's breadth in a long run

/** {prefill: number of prefill steps, extent: steps on the line, x(step) -> 0..1, stepAt(x)} */
export function scale(run) {
  const last = run?.last ?? 0;
  if (run?.mixed) {
    // steps of a batch do prefill and decode at once, so all are alike
    const extent = Math.max(last, 1);
    const clamp = (x) => Math.max(0, Math.min(x, 1));
    return { prefill: 0, extent, x: (s) => clamp(s / extent), stepAt: (at) => Math.round(clamp(at) * extent) };
  }
  const known = prefillSteps(run);
  const prefill = known || 1;
  const planned = run?.finished || !run?.max_new ? 0 : prefill + run.max_new - 1;
  const extent = Math.max(last, planned, prefill, 1);
  const share = extent === prefill ? 1 : Math.max(PREFILL_SHARE, prefill / extent);
  const x = (step) => {
    const s = Math.max(0, Math.min(step, extent));
    return s <= prefill ? (share * s) / prefill : share + ((1 - share) * (s - prefill)) / (extent - prefill);
  };
  const stepAt = (at) => {
    const t = Math.max(0, Math.min(at, 1));
    return Math.round(t <= share ? (t / share) * prefill : prefill + ((t - share) / (1 - share)) * (extent - prefill));
  };
  return { prefill, extent, x, stepAt };
}

// Before the prefill is over its length is a guess: one pass, or a step for each prompt token.
function prefillSteps(run) {
  if (!run) return 0;
  const steps = run.history ? run.history.meta : (run.meta ?? []);
  let done = 0;
  for (const step of steps) if ((run.history ? step.phase : step[0]) === "prefill") done++;
  const whole = run.history?.info.prefill === "token by token" ? run.prompt_len : 1;
  return steps.length > done ? done : Math.max(done, whole);
}
