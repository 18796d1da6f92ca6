"""The parts of a step by which its time is told: which stage belongs to which. Standard library only."""

from __future__ import annotations

ATTENTION, MLP, UNEMBED, SAMPLING, BOOKKEEPING = GROUPS = ("attention", "mlp", "unembed", "sampling", "bookkeeping")

STAGES: dict[str, tuple[str, ...]] = {
    ATTENTION: ("attn_norm", "qkv_proj", "rope", "write_kv", "attn_scores", "attn_pattern", "attn_mix", "attn_out"),
    MLP: ("mlp_norm", "mlp_hidden", "mlp_out"),
    UNEMBED: ("final_norm", "unembed"),
    SAMPLING: (*(f"processor_{i}" for i in range(1, 7)), "softmax", "sample"),
}
_GROUP_OF = {stage: group for group, stages in STAGES.items() for stage in stages}


def group_of(stage: str) -> str:
    """The part of the step that a stage belongs to; what is in no other (schedule, prepare_inputs, embed, commit) is
    bookkeeping."""
    return _GROUP_OF.get(stage, BOOKKEEPING)
