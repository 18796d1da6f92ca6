// What library.py calls: one function for each stage of decoding, and `mi_linear` for a product by itself. Each is there
// twice, for fields of float32 and of bfloat16: N is the type of their numbers. Shape letters as in config.py, T rows (in
// decode one for each sequence).
#pragma once
#include <cstdint>

#include "numbers.h"

// How the numbers of a matrix [out, in] lie in memory. Nothing is copied: these are the layouts of torch and of the file.
enum Layout : int32_t {
    FLOAT32_PANELS = 0,   // panels of `width` rows; in a panel, for each column, the numbers of its rows
    INT4_PANELS = 1,      // the same with 4 bits a number: byte d of a column holds row d (low half) and row d + width / 2
    Q8_ROWS = 2,          // row after row in blocks of 32: a float16 scale and 32 signed bytes
    BFLOAT16_PANELS = 3,  // panels as of float32 in which two columns lie side by side: for each two, a pair of each row
};

struct Matrix {
    int32_t layout;
    int32_t width;       // rows of a panel: 16, 32, 48 or 64
    int64_t out, in;
    int64_t columns;     // of a panel as stored: `in`, or more if it is padded
    const void* numbers;
    const uint16_t* scales;  // INT4_PANELS: [in / 32, out, 2] bfloat16 pairs (scale, zero): scale (q - 8) + zero
};

// Where the keys and values of one layer lie: [2, K, N, P, D], and who reads which blocks: tables [S, B], lens [S].
template <class N> struct Cache {
    N* layer;
    int64_t num_blocks, block_size, num_kv_heads, head_dim;
};

// A decode step whose fields have their memory already: what the functions of one layer need, so that a call takes three
// arguments. A field [L, ...] is given by its first number; layer i has its own part of it.
template <class N> struct Layer {
    const N* attn_norm;
    const Matrix *qkv, *attn_out;
    const N* mlp_norm;
    const Matrix *gate_up, *down;
};

template <class N> struct Step {
    const Layer<N>* layers;
    int64_t num_layers, rows, hidden, mlp, num_heads, num_kv_heads, head_dim, context, table_size;
    double eps;
    const N *rope_cos, *rope_sin;
    const int64_t *slots, *new_blocks, *tables, *lens;
    int64_t num_new;
    Cache<N> cache;  // of layer 0
    int64_t cache_stride;
    const N* embedded;  // resid_pre of layer 0
    N *attn_norm_out, *qkv, *turned, *z, *attn_out, *resid_mid, *mlp_norm_out, *mlp_hidden, *mlp_out, *resid_post;
};

template <class N> void mi_linear(const Matrix* w, const N* x, int64_t rows, N* y);
template <class N>
void mi_linear_add(const Matrix* w, const N* x, const N* resid, int64_t rows, N* y, N* sum);
template <class N> void mi_gate(const N* both, int64_t rows, int64_t size, N* hidden);
template <class N> void mi_mlp_hidden(const Matrix* gate_up, const N* x, int64_t rows, N* hidden);
template <class N>
void mi_embed(const uint8_t* matrix, int64_t vocab_size, const int64_t* ids, int64_t rows, int64_t size, N* x);
template <class N>
void mi_rms_norm(const N* x, const N* weight, double eps, int64_t rows, int64_t size, N* y);
template <class N>
void mi_rope(const N* q, int64_t q_stride, const N* k, int64_t k_stride, const N* cos, const N* sin, int64_t rows,
             int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, N* turned);
template <class N>
void mi_write_kv(const Cache<N>* cache, const N* k, int64_t k_stride, const N* v, int64_t v_stride,
                 const int64_t* slots, int64_t rows, const int64_t* new_blocks, int64_t num_new);
template <class N>
void mi_attn_scores(const Cache<N>* cache, const N* q, int64_t q_stride, int64_t num_heads, const int64_t* tables,
                    int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, N* scores);
template <class N> void mi_attn_pattern(const N* scores, int64_t rows, int64_t context, N* pattern);
template <class N>
void mi_attn_mix(const Cache<N>* cache, const N* pattern, int64_t num_heads, const int64_t* tables,
                 int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, N* z);

// Attention of many rows of one sequence, its last ones: row t of T sees the keys before C - T + t + 1. table [B].
template <class N>
void mi_attn_scores_rows(const Cache<N>* cache, const N* q, int64_t q_stride, int64_t num_heads, const int64_t* table,
                         int64_t rows, int64_t context, N* scores);
template <class N>
void mi_attn_mix_rows(const Cache<N>* cache, const N* pattern, int64_t num_heads, const int64_t* table, int64_t rows,
                      int64_t context, N* z);

// Of a pattern [H, T, C], whose row t is that of position start + t: the largest number within each cell of `cell`
// positions along both sides, pooled [H, cells that the rows touch, ceil(C / cell)]. A NaN is the largest.
template <class N>
void mi_largest_in_cells(const N* pattern, int64_t head_stride, int64_t row_stride, int64_t num_heads, int64_t rows,
                         int64_t context, int64_t start, int64_t cell, float* pooled);

// The same stages on the fields of a step.
template <class N> void mi_step_attn_norm(const Step<N>* step, int64_t layer);
template <class N> void mi_step_qkv_proj(const Step<N>* step, int64_t layer);
template <class N> void mi_step_rope(const Step<N>* step, int64_t layer);
template <class N> void mi_step_write_kv(const Step<N>* step, int64_t layer);
template <class N> void mi_step_attn_scores(const Step<N>* step, int64_t layer, N* scores);
template <class N> void mi_step_attn_pattern(const Step<N>* step, const N* scores, N* pattern);
template <class N> void mi_step_attn_mix(const Step<N>* step, int64_t layer, const N* pattern);
template <class N> void mi_step_attn_out(const Step<N>* step, int64_t layer);
template <class N> void mi_step_mlp_norm(const Step<N>* step, int64_t layer);
template <class N> void mi_step_mlp_hidden(const Step<N>* step, int64_t layer);
template <class N> void mi_step_mlp_out(const Step<N>* step, int64_t layer);

// How library.py finds the functions above: each file of stages has a table of its own.
struct Entry {
    const char* name;
    const void *float32, *bfloat16;
};
extern const Entry STAGE_ENTRIES[], ATTENTION_ENTRIES[], PREFILL_ENTRIES[], STEP_ENTRIES[];  // the last one is empty
#define MI_ENTRY(name) Entry{#name, reinterpret_cast<void*>(&name<float>), reinterpret_cast<void*>(&name<Bfloat16>)}

extern "C" {
int64_t mi_version(void);
const void* mi_function(const char* name, int64_t bfloat16);  // its address, for fields of bfloat16 or float32; or null
void mi_set_threads(int64_t count);                           // that work on one call, the caller included
void mi_large_pages(const void* address, int64_t bytes);
int64_t mi_takes_many(const Matrix* w);  // 1 if a product of many rows with it is faster here than torch's, else 0
}
