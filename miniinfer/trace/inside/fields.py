"""The fields of a step's state in words and figures: what a stage read and wrote, how large, what is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from miniinfer.trace.inside.records import FieldLook, StageLook, TensorFacts
from miniinfer.trace.records import FloatArray

if TYPE_CHECKING:
    import torch

    from miniinfer.engine.stage import Stage
    from miniinfer.engine.state import StepState
    from miniinfer.trace.inside.inside import StepInside

KEYS_NAME, VALUES_NAME = "kv_cache keys", "kv_cache values"
CACHE_READS = {"attn_scores": (KEYS_NAME,), "attn_mix": (VALUES_NAME,)}
LETTERS = {KEYS_NAME: "K C D", VALUES_NAME: "K C D", "new_blocks": "blocks", "block_tables": "blocks"}
CUT = ("attn_scores", "logits")  # minus infinity is no accident in these


def letters_of(inside: StepInside, name: str) -> str:
    """The shape of a field in the letters of config, "" if it has none."""
    from miniinfer.engine.program import SHAPES

    return LETTERS.get(name) or SHAPES.get(name, "")


def field_values(inside: StepInside, names: Iterable[str], stage: Stage | None = None) -> dict[str, Any]:
    """References to the fields, by name; the cache as the keys and values of the layer that the stage touches."""
    found: dict[str, Any] = {}
    state = inside.state
    for name in names:
        if name == "kv_cache":
            stage = stage or inside.program[inside.pc - 1]
            for part in CACHE_READS.get(stage.name, (KEYS_NAME, VALUES_NAME)):
                found[part] = _cached(inside, stage, part)
        elif name == "sequences":
            found[name] = _sequences_in_words(state)  # now: the next stage may change them
        else:
            found[name] = getattr(state, name)
    return found


def _cached(inside: StepInside, stage: Stage, part: str) -> torch.Tensor:
    """[K, C, D] of the layer, up to the newest position of this step."""
    from miniinfer.engine.kv_cache import KEYS, VALUES

    assert stage.layer is not None
    which = KEYS if part == KEYS_NAME else VALUES
    blocks = inside.state.block_tables[0]
    # A copy: the next gather writes over this one.
    return inside.engine.kv_cache.gather(stage.layer, which, blocks, 1, inside.rows.stop).clone()


def as_tensor(value: Any) -> torch.Tensor | None:
    """The tensor of a field: of a tuple with one for each group the only one, of plain numbers a new one."""
    import torch

    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], torch.Tensor):
        value = value[0]
    if isinstance(value, tuple) and value and all(isinstance(v, int | float) for v in value):
        value = torch.tensor(value)
    return value if isinstance(value, torch.Tensor) and value.numel() else None


def facts_of(inside: StepInside, name: str, value: Any) -> TensorFacts | None:
    """None for what is no tensor."""
    import torch

    tensor = as_tensor(value)
    if tensor is None:
        return None
    wide = tensor.detach().float()
    finite = torch.isfinite(wide)
    good = wide if bool(finite.all()) else wide[finite]
    nan = int(wide.isnan().sum()) if good is not wide else 0
    inf = wide.numel() - good.numel() - nan
    hidden = int(wide.isneginf().sum()) if name in CUT and inf else 0
    if name == "attn_scores" and hidden:  # only where the group says that a row must not look
        hidden = _hidden_on_purpose(inside.state, wide)
    some = good.numel() > 0
    return TensorFacts(
        letters_of(inside, name), tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.numel(),
        float(good.double().square().sum().sqrt()) if some else math.nan,
        float(good.min()) if some else math.nan, float(good.max()) if some else math.nan,
        float(good.double().mean()) if some else math.nan, nan, inf - hidden, hidden,
    )  # fmt: skip


def _hidden_on_purpose(state: StepState, scores: torch.Tensor) -> int:
    mask = state.groups[0].hidden
    return 0 if mask is None else int((mask.expand_as(scores) & scores.isneginf()).sum())


def described(
    inside: StepInside, stage: Stage, reads: Mapping[str, Any], writes: Mapping[str, Any]
) -> StageLook:
    fields = tuple(
        _field(inside, role, name, value)
        for role, values in (("reads", reads), ("writes", writes))
        for name, value in values.items()
    )
    return StageLook(
        inside.pc, stage.name, stage.layer, stage.sentence, stage.formula, fields, inside.lines.sources()
    )


def _field(inside: StepInside, role: str, name: str, value: Any) -> FieldLook:
    facts = facts_of(inside, name, value)
    letters = facts.letters.split() if facts else []
    if facts is None:
        return FieldLook(role, name, None, in_words(inside, name, value))
    model = inside.run.info.model
    heads = model.num_heads if "G" in letters or "H" in letters else model.num_kv_heads if "K" in letters else 0
    return FieldLook(role, name, facts, "", heads, "T" in letters or "Tq" in letters)


def in_words(inside: StepInside, name: str, value: Any) -> str:
    """What a field that is no tensor holds, in a few words."""
    if name == "scheduled":
        parts = (f"tokens {e.start} to {e.stop - 1}" for e in value)
        return "; ".join(parts) or "none"
    if name == "admitted":
        return f"{len(value)} from the waiting queue"
    if name == "only":
        return "this replay alone"
    if name == "groups":
        parts = (f"{_count(g.num_rows, 'row')} × {_count(g.context_len, 'key')}" for g in value)
        return "; ".join(parts) or "none yet"
    if name == "errors":
        return "; ".join(map(str, value.values())) or "none"
    if value is None or (hasattr(value, "numel") and not value.numel()) or value == ():
        return "nothing"
    return str(value)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _sequences_in_words(state: StepState) -> str:
    seqs = [entry.seq for entry in state.scheduled]
    return "; ".join(
        f"{_count(s.num_tokens, 'token')}, {s.num_computed_tokens:,} computed, {_count(len(s.block_table), 'block')}"
        for s in seqs
    ) or "none scheduled yet"


def row_norms(stage: Stage, state: StepState) -> Iterator[tuple[str, FloatArray]]:
    """(field, L2 norm of each of its rows [T]) of the tensors with a row for each token that the stage wrote."""
    for name in stage.writes:
        letters = stage.shapes.get(name, "").split()
        if letters[:1] != ["T"] or len(letters) < 2:
            continue
        yield name, getattr(state, name).flatten(1).float().norm(dim=1).cpu().numpy()
