"""The settings of a sampler in a line of words."""

from __future__ import annotations

from miniinfer.config import SamplingParams

_OFF = SamplingParams()


def sampler_words(params: SamplingParams) -> str:
    """Those that are off are left out, but for temperature, top-p and top-k."""
    words = [f"temperature {params.temperature:g}", f"top-p {params.top_p:g}", f"top-k {params.top_k}"]
    for name in ("min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"):
        if getattr(params, name) != getattr(_OFF, name):
            words.append(f"{_word(name)} {getattr(params, name):g}")
    if params.stop:
        words.append("stop at " + " or ".join(map(repr, params.stop)))
    if params.stop_ids:
        words.append(f"stop ids {', '.join(map(str, params.stop_ids))}")
    if params.order != _OFF.order:
        words.append(f"order {' → '.join(map(_word, params.order)) or 'of no stage'}")
    return ", ".join([*words, f"seed {params.seed}"])


def _word(name: str) -> str:
    return name.replace("_", "-" if name in ("top_k", "top_p", "min_p") else " ")
