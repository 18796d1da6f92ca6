"""The program of a step: which stage runs when, what it reads and what it writes. One stage is one small function."""

from __future__ import annotations

from dataclasses import replace

from miniinfer.config import PROCESSOR_NAMES, ModelConfig
from miniinfer.engine.stage import Stage, StageFunction
from miniinfer.engine.stages import attention, inputs, mlp, output

# In reads and writes, beside the fields of StepState:
KV_CACHE = "kv_cache"  # the pool's numbers, the only tensor that is changed in place
SEQUENCES = "sequences"  # their ids, counts, block tables and status

# The letters of every tensor field; attn_scores and attn_pattern are tuples with one such tensor for each group.
SHAPES = {
    "input_ids": "T", "positions": "T", "rope_cos": "T 1 D", "rope_sin": "T 1 D",
    "resid_pre": "T E", "attn_norm_out": "T E", "q": "T H D", "k": "T K D", "v": "T K D", "slot_mapping": "T",
    "attn_scores": "K S G Tq C", "attn_pattern": "K S G Tq C", "z": "T H D", "attn_out": "T E", "resid_mid": "T E",
    "mlp_norm_out": "T E", "mlp_hidden": "T F", "mlp_out": "T E", "resid_post": "T E", "final_norm_out": "T E",
    "raw_logits": "R V", "logits": "R V", "probs": "R V", "coins": "R", "token_ids": "R",
}  # fmt: skip


def _stage(fn: StageFunction, reads: str, writes: str) -> Stage:
    names = (*reads.split(), *writes.split())
    shapes = {name: SHAPES[name] for name in names if name in SHAPES}
    return Stage(fn.__name__, fn, tuple(reads.split()), tuple(writes.split()), shapes)


BEFORE_LAYERS = (
    _stage(inputs.schedule, f"only {SEQUENCES}", f"scheduled admitted preempted waits_for width {SEQUENCES}"),
    _stage(inputs.prepare_inputs, f"scheduled {SEQUENCES}",
           "input_ids positions rope_cos rope_sin groups sample_rows sample_seqs"),
    _stage(inputs.embed, "input_ids", "resid_pre"),
)  # fmt: skip
LAYER = (
    _stage(attention.attn_norm, "resid_pre resid_post", "resid_pre attn_norm_out"),
    _stage(attention.qkv_proj, "attn_norm_out", "q k v"),
    _stage(attention.rope, "q k rope_cos rope_sin", "q k"),
    _stage(attention.write_kv, f"k v scheduled groups {SEQUENCES}",
           f"pool_version slot_mapping new_blocks block_tables {KV_CACHE} {SEQUENCES}"),
    _stage(attention.attn_scores, f"q groups block_tables {KV_CACHE}", "attn_scores"),
    _stage(attention.attn_pattern, "attn_scores", "attn_pattern"),
    _stage(attention.attn_mix, f"attn_pattern groups block_tables {KV_CACHE}", "z"),
    _stage(attention.attn_out, "z resid_pre", "attn_out resid_mid"),
    _stage(mlp.mlp_norm, "resid_mid", "mlp_norm_out"),
    _stage(mlp.mlp_hidden, "mlp_norm_out", "mlp_hidden"),
    _stage(mlp.mlp_out, "mlp_hidden resid_mid", "mlp_out resid_post"),
)  # fmt: skip
AFTER_LAYERS = (
    _stage(output.final_norm, "resid_post", "final_norm_out"),
    _stage(output.unembed, "final_norm_out sample_rows", "raw_logits logits errors"),
    *(
        replace(_stage(output.processor, f"logits scheduled sample_seqs errors {SEQUENCES}", "logits"),
                name=f"processor_{i + 1}", processor=i)
        for i in range(len(PROCESSOR_NAMES))
    ),
    _stage(output.softmax, f"logits scheduled sample_seqs errors {SEQUENCES}", "errors probs"),
    _stage(output.sample, f"probs scheduled sample_seqs errors {SEQUENCES}", "coins token_ids"),
    _stage(output.commit, f"scheduled sample_seqs token_ids errors {SEQUENCES}", SEQUENCES),
)  # fmt: skip


def build_program(config: ModelConfig) -> tuple[Stage, ...]:
    """The stages of a step of this model, from `schedule` to `commit`."""
    layers = (replace(stage, layer=layer) for layer in range(config.num_layers) for stage in LAYER)
    return (*BEFORE_LAYERS, *layers, *AFTER_LAYERS)
