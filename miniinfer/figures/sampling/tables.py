"""The sampler as tables: one row a stage, a token, a draw or a run. Probabilities are numbers from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from miniinfer.config import SamplingParams
from miniinfer.figures.sampling.words import (
    LABELS,
    OwnText,
    TokenText,
    counted,
    fate,
    purpose,
    rest_of,
    setting,
    stage_label,
    times,
)
from miniinfer.trace.sampling.draws import Draws, Sweep
from miniinfer.trace.sampling.prediction import Score
from miniinfer.trace.sampling.sampling import FINAL, RAW, Sampling
from miniinfer.trace.tree import TreeNode


def plan_table(params: SamplingParams, vocab_size: int) -> pd.DataFrame:
    """What each stage will do with these settings, before there are any logits."""
    last = "Best token" if params.greedy else LABELS[FINAL]
    rows = [(LABELS[RAW], "", f"one number for each of {vocab_size:,} tokens, from the prompt's last position")]
    rows += [(LABELS[name], setting(name, params), purpose(name, params)) for name in params.order]
    rows.append((last, "", purpose(FINAL, params)))
    rows.append(("Draw", "", "the coin falls on the bar; where it lands, that token is taken"))
    return pd.DataFrame(rows, columns=["stage", "setting", "what it will do"])


def stages_table(sampling: Sampling, text: TokenText) -> pd.DataFrame:
    """From the raw logits to the token: what stays, what goes and how uncertain it is after each stage.

    What a stage cut and moved is left empty where it is off.
    """
    rows = [
        {
            "stage": stage_label(sampling, number), "setting": setting(stage.name, sampling.params),
            "tokens left": stage.num_kept, "cut here": None if stage.off else stage.num_cut,
            "mass cut": None if stage.off else stage.mass_cut, "mass moved": None if stage.off else stage.mass_moved,
            "entropy before": before.entropy,
            "entropy after": stage.entropy, "likeliest": text(int(stage.probs.argmax())),
            "its probability": float(stage.probs.max()),
        }
        for number, (before, stage) in enumerate(zip((sampling.raw, *sampling.stages), sampling.stages, strict=False))
    ]
    drawn = float(sampling.used.probs[sampling.token_id])
    rows.append({
        "stage": "Draw", "setting": "greedy" if sampling.params.greedy else f"coin {sampling.coin:.4f}",
        "tokens left": 1, "cut here": sampling.used.num_kept - 1, "mass cut": max(0.0, 1 - drawn),
        "mass moved": max(0.0, 1 - drawn), "entropy before": sampling.used.entropy, "entropy after": 0.0,
        "likeliest": text(sampling.token_id), "its probability": 1.0,
    })
    return pd.DataFrame(rows)


def tokens_table(sampling: Sampling, token_ids: Iterable[int], text: TokenText) -> pd.DataFrame:
    """One row a token: what the model and what the settings gave it, and where and why it fell."""
    raw, used = sampling.raw, sampling.used
    rows = []
    for i in token_ids:
        became = fate(sampling, i)
        rows.append({
            "token": text(i), "id": i, "rank": sampling.rank_before(i, 0), "logit": float(raw.logits[i]),
            "raw probability": float(raw.probs[i]), "used probability": float(used.probs[i]), "fell at": became.at,
            "why": became.why,
        })
    columns = ["token", "id", "rank", "logit", "raw probability", "used probability", "fell at", "why"]
    return pd.DataFrame(rows, columns=columns)


def stage_table(sampling: Sampling, stage: int, token_ids: Sequence[int], text: TokenText) -> pd.DataFrame:
    """The twin of a stage's figure: each token before and after the stage; the last row is all other tokens."""
    after, before = sampling.stages[stage].probs, sampling.stages[max(stage - 1, 0)].probs
    rows = []
    for i in token_ids:
        became = fate(sampling, i)
        rows.append({
            "token": text(i), "id": i, "drawn": "●" if i == sampling.token_id else "", "before": float(before[i]),
            "after": float(after[i]), "fell at": became.at, "why": became.why,
        })
    others = sampling.vocab_size - len(rows)
    if others:
        shown = list(token_ids)
        rows.append({
            "token": f"(the other {others:,} tokens)", "id": -1, "drawn": "", "fell at": "", "why": "",
            "before": rest_of(before, shown), "after": rest_of(after, shown),
        })
    return pd.DataFrame(rows)


def bar_table(sampling: Sampling, coin: float, token_id: int, most: int, text: TokenText) -> pd.DataFrame:
    """The twin of the cumulative bar: from where to where each token reaches, and on which the coin landed."""
    probs = sampling.used.probs
    ids = sampling.order[: min(most, int((probs > 0).sum()))]
    ends = probs[ids].cumsum(dtype=float)
    rows: list[dict[str, object]] = [
        {
            "token": text(int(i)), "id": int(i), "coin": f"{coin:.6f}" if i == token_id else "",
            "raw probability": float(sampling.raw.probs[i]), "used probability": float(probs[i]),
            "from": float(end - probs[i]), "to": float(end),
        }
        for i, end in zip(ids, ends, strict=True)
    ]
    if others := sampling.vocab_size - len(ids):
        rows.append({
            "token": f"(the other {others:,} tokens)", "id": -1, "coin": "" if token_id in ids else f"{coin:.6f}",
            "raw probability": rest_of(sampling.raw.probs, ids),
            "used probability": rest_of(sampling.used.probs, ids), "from": min(1.0, float(ends[-1])), "to": 1.0,
        })
    return pd.DataFrame(rows)


def orders_table(first: Sampling, second: Sampling, names: tuple[str, str], text: TokenText, most: int) -> pd.DataFrame:
    """Who survives in which of two orders: all that survive in only one come first, then the best of both."""
    a, b = first.used.probs, second.used.probs
    alive = ((a > 0) | (b > 0)).nonzero()[0]
    ranked = sorted(alive.tolist(), key=lambda i: ((a[i] > 0) == (b[i] > 0), -max(float(a[i]), float(b[i])), i))
    rows = []
    for i in ranked[:most]:
        where = "both" if a[i] > 0 and b[i] > 0 else f"only {names[0] if a[i] > 0 else names[1]}"
        lost = "" if where == "both" else fate(second if a[i] > 0 else first, i)
        rows.append({
            "token": text(i), "id": i, "survives": where, names[0]: float(a[i]), names[1]: float(b[i]),
            "why not in the other": lost if isinstance(lost, str) else f"{lost.at}: {lost.why}",
        })
    return pd.DataFrame(rows, columns=["token", "id", "survives", *names, "why not in the other"])


def survivors_count(first: Sampling, second: Sampling) -> tuple[int, int, int]:
    """Tokens that can be drawn in both orders, only in the first, only in the second."""
    a, b = first.used.probs > 0, second.used.probs > 0
    return int((a & b).sum()), int((a & ~b).sum()), int((b & ~a).sum())


def draws_table(draws: Draws, token_ids: Sequence[int], text: TokenText) -> pd.DataFrame:
    """Counts beside what was expected, and how far chance lets a count stray; the last row is all other tokens."""
    rows = [
        {
            "token": text(i), "id": i, "probability": float(draws.probs[i]), "drawn": int(draws.counts[i]),
            "expected": draws.expected(i), "spread by chance": draws.spread(i), "spreads away": draws.deviation(i),
        }
        for i in token_ids
    ]
    others = draws.others(token_ids)
    if others.kept:
        rows.append({
            "token": f"(the other {others.kept:,} that stay)", "id": -1, "probability": others.prob,
            "drawn": others.drawn, "expected": others.expected, "spread by chance": others.spread,
            "spreads away": (others.drawn - others.expected) / others.spread if others.spread else 0.0,
        })
    return pd.DataFrame(rows)


def sweep_table(sweep: Sweep, token_ids: Sequence[int], text: TokenText) -> pd.DataFrame:
    """One row a temperature: how many can be drawn, what this coin draws, and the leaders' probabilities."""
    frame = pd.DataFrame({
        "temperature": sweep.temperatures, "tokens left": sweep.num_kept,
        "this coin draws": [text(i) for i in sweep.winners],
    })
    for i in token_ids:
        frame[f"{text(i)} ({i})"] = sweep.probs[:, i].astype(float)
    return frame


def penalties_table(sampling: Sampling, text: TokenText) -> pd.DataFrame:
    """Which tokens the penalties counted, how often, and how much each changed the logit."""
    rows = []
    stages = {stage.name: (before, stage) for before, stage in zip(sampling.stages, sampling.stages[1:], strict=False)}
    for i, in_prompt, in_output in counted(sampling):
        row: dict[str, object] = {
            "token": text(i), "id": i, "in prompt": times(in_prompt) if in_prompt else "",
            "in output": times(in_output) if in_output else "", "logit": float(sampling.raw.logits[i]),
        }
        for name, label in (("repetition", "repetition"), ("presence_frequency", "the others")):
            if name in stages:
                before, after = stages[name]
                row[f"by {label}"] = float(after.logits[i]) - float(before.logits[i])
        rows.append(row)
    return pd.DataFrame(rows)


def tree_table(nodes: Sequence[TreeNode], current: str | None, text: OwnText) -> pd.DataFrame:
    """One row a run, branches below their trunk, with the probabilities on each edge and the bytes of the KV cache."""
    rows = []
    for node in nodes:
        info, kv = node.run.info, node.kv
        edge, instead = node.edge, node.instead
        rows.append({
            "": "●" if info.run_id == current else "",
            "run": info.run_id, "trunk": info.parent or "", "name": info.name,
            "output token": None if node.output is None else node.output + 1,
            "took": text(edge.token) if edge else "",
            "how": "" if info.edit is None else "forced" if node.forced else "new settings",
            "model assigned": edge.raw_prob if edge else None, "settings assigned": edge.used_prob if edge else None,
            "trunk took": text(instead.token) if instead else "",
            "model assigned to that": instead.raw_prob if instead else None,
            "first difference": None if node.first_difference is None else node.first_difference + 1,
            "KV used": kv.used_bytes if kv else None, "KV allocated": kv.allocated_bytes if kv else None,
            "positions taken over": kv.taken_over if kv else None,
            "positions shared now": kv.shared_positions if kv else None,
            "shared, used": kv.shared_used_bytes if kv else None,
            "shared, allocated": kv.shared_allocated_bytes if kv else None,
            "output tokens": node.num_outputs, "ended": node.run.finish_reason or "",
        })
    return pd.DataFrame(rows)


def scores_table(rounds: Sequence[tuple[int, Score]], text: TokenText) -> pd.DataFrame:
    """One row a guess: the step, what was assigned to it, whether it survived and whether it was taken."""
    return pd.DataFrame([
        {
            "step": step, "guess": s.text, "counted as": text(s.token_id), "rank": s.rank,
            "assigned by the model": s.raw_prob, "by the settings": s.used_prob,
            "survived": "yes" if s.survived else "no", "taken": "yes" if s.hit else "no", "surprise": s.surprise,
        }
        for step, s in rounds
    ])
