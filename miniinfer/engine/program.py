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


def _stage(fn: StageFunction, reads: str, writes: str, formula: str) -> Stage:
    names = (*reads.split(), *writes.split())
    shapes = {name: SHAPES[name] for name in names if name in SHAPES}
    return Stage(fn.__name__, fn, tuple(reads.split()), tuple(writes.split()), shapes, formula)


# In the formulas: x residual stream, t a row, p its position, j an earlier position, h a head, g(h) its key/value head,
# W a matrix and w a vector of weights, l logits, u the coin.
BEFORE_LAYERS = (
    _stage(inputs.schedule, f"only {SEQUENCES}", f"scheduled admitted preempted waits_for width {SEQUENCES}",
           r"T = \sum_s n_s \leq \text{token budget}"),
    _stage(inputs.prepare_inputs, f"scheduled {SEQUENCES}",
           "input_ids positions rope_cos rope_sin groups sample_rows sample_seqs",
           r"\theta_{t,i} = p_t \cdot \text{base}^{-2i/D}, \quad \cos\theta_{t,i}, \ \sin\theta_{t,i}"),
    _stage(inputs.embed, "input_ids", "resid_pre", r"x_t = W_E[\text{id}_t]"),
)  # fmt: skip
RMS_NORM = r"n_t = \frac{x_t}{\sqrt{\frac{1}{E} \sum_i x_{t,i}^2 + \varepsilon}} \odot w"
FIRST_NORM = _stage(attention.attn_norm, "resid_pre", "resid_pre attn_norm_out", RMS_NORM)  # of layer 0, after embed
LAYER = (
    _stage(attention.attn_norm, "resid_post", "resid_pre attn_norm_out", RMS_NORM),
    _stage(attention.qkv_proj, "attn_norm_out", "q k v",
           r"q_t = W_Q \, n_t, \quad k_t = W_K \, n_t, \quad v_t = W_V \, n_t"),
    _stage(attention.rope, "q k rope_cos rope_sin", "q k",
           r"q_t \leftarrow q_t \odot \cos\theta_t + q_t^{\perp} \odot \sin\theta_t, \quad k_t \text{ likewise}"),
    _stage(attention.write_kv, f"k v scheduled groups {SEQUENCES}",
           f"pool_version slot_mapping new_blocks block_tables {KV_CACHE} {SEQUENCES}",
           r"K[\text{slot}_t] = k_t, \quad V[\text{slot}_t] = v_t"),
    _stage(attention.attn_scores, f"q groups block_tables {KV_CACHE}", "attn_scores",
           r"S_{h,t,j} = \frac{q_{t,h} \cdot K_{g(h),j}}{\sqrt{D}} \ \text{ if } j \leq p_t, \text{ else } -\infty"),
    _stage(attention.attn_pattern, "attn_scores", "attn_pattern",
           r"A_{h,t,j} = \frac{e^{S_{h,t,j}}}{\sum_i e^{S_{h,t,i}}}"),
    _stage(attention.attn_mix, f"attn_pattern groups block_tables {KV_CACHE}", "z",
           r"z_{t,h} = \sum_j A_{h,t,j} \, V_{g(h),j}"),
    _stage(attention.attn_out, "z resid_pre", "attn_out resid_mid",
           r"a_t = W_O \, [z_{t,0} \ldots z_{t,H-1}], \quad x_t \leftarrow x_t + a_t"),
    _stage(mlp.mlp_norm, "resid_mid", "mlp_norm_out", RMS_NORM),
    _stage(mlp.mlp_hidden, "mlp_norm_out", "mlp_hidden",
           r"h_t = \text{silu}(W_G \, n_t) \odot W_U \, n_t, \quad \text{silu}(y) = \frac{y}{1 + e^{-y}}"),
    _stage(mlp.mlp_out, "mlp_hidden resid_mid", "mlp_out resid_post",
           r"m_t = W_D \, h_t, \quad x_t \leftarrow x_t + m_t"),
)  # fmt: skip
AFTER_LAYERS = (
    _stage(output.final_norm, "resid_post", "final_norm_out",
           r"f_t = \frac{x_t}{\sqrt{\frac{1}{E} \sum_i x_{t,i}^2 + \varepsilon}} \odot w"),
    _stage(output.unembed, "final_norm_out sample_rows", "raw_logits logits errors", r"\ell = W_U f_t"),
    *(
        replace(_stage(output.processor, f"logits scheduled sample_seqs errors {SEQUENCES}", "logits",
                       rf"\ell \leftarrow f_{i + 1}(\ell)"),
                name=f"processor_{i + 1}", processor=i)
        for i in range(len(PROCESSOR_NAMES))
    ),
    _stage(output.softmax, f"logits scheduled sample_seqs errors {SEQUENCES}", "errors probs",
           r"P(i) = \frac{e^{\ell_i}}{\sum_j e^{\ell_j}}"),
    _stage(output.sample, f"probs scheduled sample_seqs errors {SEQUENCES}", "coins token_ids",
           r"\text{token} = \min \{ i : \textstyle\sum_{j \preceq i} P(j) > u \}"),
    _stage(output.commit, f"scheduled sample_seqs token_ids errors {SEQUENCES}", SEQUENCES,
           r"n_{\text{computed}} \leftarrow n_{\text{computed}} + T, \quad "
           r"\text{tokens} \leftarrow \text{tokens}, \text{token}"),
)  # fmt: skip


def build_program(config: ModelConfig) -> tuple[Stage, ...]:
    """The stages of a step of this model, from `schedule` to `commit`."""
    first = (FIRST_NORM, *LAYER[1:])
    layers = (replace(s, layer=i) for i in range(config.num_layers) for s in (LAYER if i else first))
    return (*BEFORE_LAYERS, *layers, *AFTER_LAYERS)
