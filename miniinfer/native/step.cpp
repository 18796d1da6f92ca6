// The stages of a layer on the fields of a decode step (core.h: struct Step): where each one lies, and which matrices come
// next.
#include "core.h"
#include "threads.h"

namespace {

// The part of a field that belongs to one layer; `size`: numbers of a row.
template <class N> N* part(const Step<N>& s, N* field, int64_t layer, int64_t size) {
    return field + layer * s.rows * size;
}
template <class N> N* wide(const Step<N>& s, N* field, int64_t layer) { return part(s, field, layer, s.hidden); }

template <class N> int64_t qkv_size(const Step<N>& s) { return (s.num_heads + 2 * s.num_kv_heads) * s.head_dim; }
template <class N> int64_t turned_size(const Step<N>& s) { return (s.num_heads + s.num_kv_heads) * s.head_dim; }
template <class N> N* z_of(const Step<N>& s, int64_t layer) {
    return part(s, s.z, layer, s.num_heads * s.head_dim);
}

template <class N> const N* resid_pre(const Step<N>& s, int64_t layer) {
    return layer == 0 ? s.embedded : wide(s, s.resid_post, layer - 1);
}

template <class N> Cache<N> cache_of(const Step<N>& s, int64_t layer) {
    Cache<N> cache = s.cache;
    cache.layer += layer * s.cache_stride;
    return cache;
}

// Of a matrix in panels; no layer has any other.
threads::Ahead::Range numbers(const Matrix* m) {
    const int64_t bits = m->layout == FLOAT32_PANELS ? 32 : m->layout == BFLOAT16_PANELS ? 16 : 4;
    return {m->numbers, m->out * m->columns * bits / 8};
}
threads::Ahead::Range scales(const Matrix* m) {
    return {m->scales, m->layout == INT4_PANELS ? m->out * m->columns / 8 : 0};
}

void will_read(const Matrix* first, const Matrix* second) {
    threads::crew().will_read({scales(first), numbers(first), scales(second), numbers(second)});
}

}  // namespace

template <class N> void mi_step_attn_norm(const Step<N>* s, int64_t i) {
    mi_rms_norm(resid_pre(*s, i), s->layers[i].attn_norm, s->eps, s->rows, s->hidden, wide(*s, s->attn_norm_out, i));
}

template <class N> void mi_step_qkv_proj(const Step<N>* s, int64_t i) {
    mi_linear(s->layers[i].qkv, wide(*s, s->attn_norm_out, i), s->rows, part(*s, s->qkv, i, qkv_size(*s)));
    will_read(s->layers[i].attn_out, s->layers[i].gate_up);
}

template <class N> void mi_step_rope(const Step<N>* s, int64_t i) {
    const N* q = part(*s, s->qkv, i, qkv_size(*s));
    mi_rope(q, qkv_size(*s), q + s->num_heads * s->head_dim, qkv_size(*s), s->rope_cos, s->rope_sin, s->rows,
            s->num_heads, s->num_kv_heads, s->head_dim, part(*s, s->turned, i, turned_size(*s)));
}

template <class N> void mi_step_write_kv(const Step<N>* s, int64_t i) {
    const Cache<N> cache = cache_of(*s, i);
    const N* k = part(*s, s->turned, i, turned_size(*s)) + s->num_heads * s->head_dim;
    const N* v = part(*s, s->qkv, i, qkv_size(*s)) + turned_size(*s);
    mi_write_kv(&cache, k, turned_size(*s), v, qkv_size(*s), s->slots, s->rows, s->new_blocks, s->num_new);
}

template <class N> void mi_step_attn_scores(const Step<N>* s, int64_t i, N* scores) {
    const Cache<N> cache = cache_of(*s, i);
    mi_attn_scores(&cache, part(*s, s->turned, i, turned_size(*s)), turned_size(*s), s->num_heads, s->tables,
                   s->table_size, s->lens, s->rows, s->context, scores);
}

template <class N> void mi_step_attn_pattern(const Step<N>* s, const N* scores, N* pattern) {
    mi_attn_pattern(scores, s->rows * s->num_heads, s->context, pattern);
}

template <class N> void mi_step_attn_mix(const Step<N>* s, int64_t i, const N* pattern) {
    const Cache<N> cache = cache_of(*s, i);
    mi_attn_mix(&cache, pattern, s->num_heads, s->tables, s->table_size, s->lens, s->rows, s->context, z_of(*s, i));
}

template <class N> void mi_step_attn_out(const Step<N>* s, int64_t i) {
    mi_linear_add(s->layers[i].attn_out, z_of(*s, i), resid_pre(*s, i), s->rows, wide(*s, s->attn_out, i),
                  wide(*s, s->resid_mid, i));
}

template <class N> void mi_step_mlp_norm(const Step<N>* s, int64_t i) {
    mi_rms_norm(wide(*s, s->resid_mid, i), s->layers[i].mlp_norm, s->eps, s->rows, s->hidden,
                wide(*s, s->mlp_norm_out, i));
}

template <class N> void mi_step_mlp_hidden(const Step<N>* s, int64_t i) {
    mi_mlp_hidden(s->layers[i].gate_up, wide(*s, s->mlp_norm_out, i), s->rows, part(*s, s->mlp_hidden, i, s->mlp));
    will_read(s->layers[i].down, s->layers[i + 1 < s->num_layers ? i + 1 : 0].qkv);
}

template <class N> void mi_step_mlp_out(const Step<N>* s, int64_t i) {
    mi_linear_add(s->layers[i].down, part(*s, s->mlp_hidden, i, s->mlp), wide(*s, s->resid_mid, i), s->rows,
                  wide(*s, s->mlp_out, i), wide(*s, s->resid_post, i));
}

const Entry STEP_ENTRIES[] = {
    MI_ENTRY(mi_step_attn_norm), MI_ENTRY(mi_step_qkv_proj), MI_ENTRY(mi_step_rope), MI_ENTRY(mi_step_write_kv),
    MI_ENTRY(mi_step_attn_scores), MI_ENTRY(mi_step_attn_pattern), MI_ENTRY(mi_step_attn_mix),
    MI_ENTRY(mi_step_attn_out), MI_ENTRY(mi_step_mlp_norm), MI_ENTRY(mi_step_mlp_hidden), MI_ENTRY(mi_step_mlp_out),
    Entry{},
};
