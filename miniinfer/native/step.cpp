// The stages of a layer on the fields of a decode step (core.h: struct Step): where each one lies, and nothing else.
#include "core.h"

namespace {

// The part of a field that belongs to one layer; `size`: numbers of a row.
float* part(const Step& s, float* field, int64_t layer, int64_t size) { return field + layer * s.rows * size; }
float* wide(const Step& s, float* field, int64_t layer) { return part(s, field, layer, s.hidden); }

int64_t qkv_size(const Step& s) { return (s.num_heads + 2 * s.num_kv_heads) * s.head_dim; }
int64_t turned_size(const Step& s) { return (s.num_heads + s.num_kv_heads) * s.head_dim; }
float* z_of(const Step& s, int64_t layer) { return part(s, s.z, layer, s.num_heads * s.head_dim); }

const float* resid_pre(const Step& s, int64_t layer) {
    return layer == 0 ? s.embedded : wide(s, s.resid_post, layer - 1);
}

Cache cache_of(const Step& s, int64_t layer) {
    Cache cache = s.cache;
    cache.layer += layer * s.cache_stride;
    return cache;
}

}  // namespace

void mi_step_attn_norm(const Step* s, int64_t i) {
    mi_rms_norm(resid_pre(*s, i), s->layers[i].attn_norm, s->eps, s->rows, s->hidden, wide(*s, s->attn_norm_out, i));
}

void mi_step_qkv_proj(const Step* s, int64_t i) {
    mi_linear(s->layers[i].qkv, wide(*s, s->attn_norm_out, i), s->rows, part(*s, s->qkv, i, qkv_size(*s)));
}

void mi_step_rope(const Step* s, int64_t i) {
    const float* q = part(*s, s->qkv, i, qkv_size(*s));
    mi_rope(q, qkv_size(*s), q + s->num_heads * s->head_dim, qkv_size(*s), s->rope_cos, s->rope_sin, s->rows,
            s->num_heads, s->num_kv_heads, s->head_dim, part(*s, s->turned, i, turned_size(*s)));
}

void mi_step_write_kv(const Step* s, int64_t i) {
    const Cache cache = cache_of(*s, i);
    const float* k = part(*s, s->turned, i, turned_size(*s)) + s->num_heads * s->head_dim;
    const float* v = part(*s, s->qkv, i, qkv_size(*s)) + turned_size(*s);
    mi_write_kv(&cache, k, turned_size(*s), v, qkv_size(*s), s->slots, s->rows, s->new_blocks, s->num_new);
}

void mi_step_attn_scores(const Step* s, int64_t i, float* scores) {
    const Cache cache = cache_of(*s, i);
    mi_attn_scores(&cache, part(*s, s->turned, i, turned_size(*s)), turned_size(*s), s->num_heads, s->tables,
                   s->table_size, s->lens, s->rows, s->context, scores);
}

void mi_step_attn_pattern(const Step* s, const float* scores, float* pattern) {
    mi_attn_pattern(scores, s->rows * s->num_heads, s->context, pattern);
}

void mi_step_attn_mix(const Step* s, int64_t i, const float* pattern) {
    const Cache cache = cache_of(*s, i);
    mi_attn_mix(&cache, pattern, s->num_heads, s->tables, s->table_size, s->lens, s->rows, s->context, z_of(*s, i));
}

void mi_step_attn_out(const Step* s, int64_t i) {
    mi_linear_add(s->layers[i].attn_out, z_of(*s, i), resid_pre(*s, i), s->rows, wide(*s, s->attn_out, i),
                  wide(*s, s->resid_mid, i));
}

void mi_step_mlp_norm(const Step* s, int64_t i) {
    mi_rms_norm(wide(*s, s->resid_mid, i), s->layers[i].mlp_norm, s->eps, s->rows, s->hidden,
                wide(*s, s->mlp_norm_out, i));
}

void mi_step_mlp_hidden(const Step* s, int64_t i) {
    mi_mlp_hidden(s->layers[i].gate_up, wide(*s, s->mlp_norm_out, i), s->rows, part(*s, s->mlp_hidden, i, s->mlp));
}

void mi_step_mlp_out(const Step* s, int64_t i) {
    mi_linear_add(s->layers[i].down, part(*s, s->mlp_hidden, i, s->mlp), wide(*s, s->resid_mid, i), s->rows,
                  wide(*s, s->mlp_out, i), wide(*s, s->resid_post, i));
}
