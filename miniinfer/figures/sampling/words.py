"""The sampler in words: names of stages, their settings, and why a token fell where it fell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miniinfer.config import SamplingParams
from miniinfer.trace.records import FloatArray, TokenInfo
from miniinfer.trace.sampling.sampling import FINAL, RAW, Sampling

TokenText = Callable[[int], str]  # a token's text with every character visible
OwnText = Callable[[TokenInfo], str]  # the same of a token of any run, whose model may be another one

LABELS = {
    RAW: "Model's logits", "repetition": "Repetition", "presence_frequency": "Presence, frequency",
    "temperature": "Temperature", "top_k": "Top-k", "top_p": "Top-p", "min_p": "Min-p", FINAL: "Softmax",
}  # fmt: skip
MINUS = "\u2212"


@dataclass(frozen=True)
class Fate:
    """What became of a token: `at` is the label of the stage that cut it, "" if it can be drawn; why: a sentence."""

    at: str
    why: str


def setting(name: str, params: SamplingParams) -> str:
    """What this stage was set to, "off" if that changes nothing."""
    p = params
    words = {
        "repetition": f"{p.repetition_penalty:g}" if p.repetition_penalty != 1 else "off",
        "presence_frequency": (
            f"{p.presence_penalty:g}, {p.frequency_penalty:g}" if p.presence_penalty or p.frequency_penalty else "off"
        ),
        "temperature": "0 = greedy" if p.greedy else f"{p.temperature:g}" if p.temperature != 1 else "1 = off",
        "top_k": f"{p.top_k:,}" if p.top_k else "off",
        "top_p": f"{p.top_p:g}" if p.top_p < 1 else "off",
        "min_p": f"{p.min_p:g}" if p.min_p else "off",
    }
    if p.greedy and name in ("top_k", "top_p", "min_p") and words[name] != "off":
        return "idle: greedy"
    return words.get(name, "")


def purpose(name: str, params: SamplingParams) -> str:
    """What this stage does with these settings."""
    words = setting(name, params)
    if "off" in words or "idle" in words:
        return "nothing: it changes no logit"
    p = params
    return {
        "repetition": f"divides positive logits of tokens in prompt or output by {p.repetition_penalty:g}, multiplies "
        "negative ones",
        "presence_frequency": f"takes {p.presence_penalty:g} off each token in the output, and {p.frequency_penalty:g} "
        "for each time it occurs there",
        "temperature": "the best token will be taken" if p.greedy else f"divides all logits by {p.temperature:g}: "
        + ("the best get a larger share" if p.temperature < 1 else "the shares come closer"),
        "top_k": f"keeps the {p.top_k:,} best tokens",
        "top_p": f"keeps the smallest set of best tokens that reaches {p.top_p:g} of the probability",
        "min_p": f"cuts what has less than {p.min_p:g} of the best one's probability",
        FINAL: "the best one gets everything" if p.greedy else "makes the logits probabilities that add up to 1",
    }[name]


def stage_label(sampling: Sampling, stage: int) -> str:
    """The stage's name; what takes the place of softmax at temperature 0 is called by what it does."""
    name = sampling.stages[stage].name
    return "Best token" if name == FINAL and sampling.params.greedy else LABELS[name]


def describe_order(order: tuple[str, ...]) -> str:
    """The names of the stages, in order."""
    return " → ".join(LABELS[name] for name in order) if order else "no stage at all"


def fate(sampling: Sampling, token_id: int) -> Fate:
    """Why the token can or cannot be drawn, with the numbers that decided."""
    stage = int(sampling.cut_by[token_id])
    params = sampling.params
    if stage < 0:
        return _kept(sampling, token_id)
    name = params.order[stage]
    before, after = sampling.stages[stage], sampling.stages[stage + 1]
    rank = sampling.rank_before(token_id, stage)
    if name == "top_k":
        return Fate(LABELS[name], f"the best {params.top_k:,} stay; this was rank {rank:,}")
    if name == "top_p":
        reached = f"{params.top_p:g} was reached at rank {after.num_kept:,}"
        return Fate(LABELS[name], f"{reached}; this was rank {rank:,}")
    if name == "min_p":
        best = float(before.probs.max())
        needed = f"{percent(params.min_p * best)} was needed, {params.min_p:g} of the best one's {percent(best)}"
        return Fate(LABELS[name], f"at least {needed}; this had {percent(float(before.probs[token_id]))}")
    return Fate(LABELS[name], "its logit became minus infinity")


def _kept(sampling: Sampling, token_id: int) -> Fate:
    used = float(sampling.used.probs[token_id])
    if sampling.params.greedy:
        if used == 1:
            return Fate("", "greedy takes the best one, and this is it")
        last = sampling.stages[-2].logits
        behind = float(last.max()) - float(last[token_id])
        rank = int(sampling.places[token_id]) + 1
        if behind == 0:
            return Fate("Greedy", "as good as the best one; of equals the lowest id is taken")
        return Fate("Greedy", f"greedy takes the best one; this was rank {rank:,}, {behind:.3g} logits behind")
    if used == 0:
        return Fate("Softmax", "not cut, but its probability is smaller than float32 can hold")
    return Fate("", f"stays, and can be drawn with {percent(used)}")


def percent(p: float) -> str:
    """13.5 %; small values keep two digits, 0 is "0 %"."""
    if p == 0:
        return "0 %"
    value = 100 * p
    if value < 1e-6:
        return f"{value:.1e} %"
    if value < 1:
        return f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0") + " %"
    return f"{value:.4g} %" if value > 99.9 and value < 100 else f"{value:.3g} %"


def rest_of(probs: FloatArray, ids: Sequence[int] | NDArray[np.int64]) -> float:
    """What all other tokens have together: exactly 0 if all of them are cut, where 1 minus the sum leaves roundings."""
    return float(np.delete(probs, ids).sum(dtype=np.float64))


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def counted(sampling: Sampling) -> list[tuple[int, int, int]]:
    """(token id, times in the prompt, times in the output) of all that a penalty may count, most frequent first."""
    prompt, output = Counter(sampling.prompt_ids), Counter(sampling.output_ids)
    ids = sorted(prompt.keys() | output.keys(), key=lambda i: (-prompt[i] - output[i], i))
    return [(i, prompt[i], output[i]) for i in ids]


def for_plotly(text: str) -> str:
    """A label that plotly shows as it is: it would take tags and entities for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
