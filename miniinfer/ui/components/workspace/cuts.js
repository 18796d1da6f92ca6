// Names of the filters that can take a candidate out.

export const CUTS = {
  top_k: "top-k",
  top_p: "top-p",
  min_p: "min-p",
  temperature: "temperature",
  repetition: "repetition",
  presence_frequency: "presence/frequency",
};
