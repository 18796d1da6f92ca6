// The C interface of the core: what library.py calls. One function for each stage of decoding, and `mi_linear` for a
// product by itself. All numbers are float32; shape letters as in config.py, T rows (in decode one for each sequence).
#pragma once
#include <cstdint>

#ifdef __cplusplus
extern "C" {
#endif

// How the numbers of a matrix [out, in] lie in memory. Nothing is copied: these are the layouts of torch and of the file.
enum Layout : int32_t {
    FLOAT32_PANELS = 0,  // panels of `width` rows; in a panel, for each column, the numbers of its rows
    INT4_PANELS = 1,     // the same with 4 bits a number: byte d of a column holds row d (low half) and row d + width / 2
    Q8_ROWS = 2,         // row after row in blocks of 32: a float16 scale and 32 signed bytes
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
struct Cache {
    float* layer;
    int64_t num_blocks, block_size, num_kv_heads, head_dim;
};

// A decode step whose fields have their memory already: what the functions of one layer need, so that a call takes three
// arguments. A field [L, ...] is given by its first number; layer i has its own part of it.
struct Layer {
    const float* attn_norm;
    const Matrix *qkv, *attn_out;
    const float* mlp_norm;
    const Matrix *gate_up, *down;
};

struct Step {
    const Layer* layers;
    int64_t rows, hidden, mlp, num_heads, num_kv_heads, head_dim, context, table_size;
    double eps;
    const float *rope_cos, *rope_sin;
    const int64_t *slots, *new_blocks, *tables, *lens;
    int64_t num_new;
    Cache cache;  // of layer 0
    int64_t cache_stride;
    const float* embedded;  // resid_pre of layer 0
    float *attn_norm_out, *qkv, *turned, *z, *attn_out, *resid_mid, *mlp_norm_out, *mlp_hidden, *mlp_out, *resid_post;
};

int64_t mi_version(void);
void mi_set_threads(int64_t count);  // that work on one call, the caller included

void mi_linear(const Matrix* w, const float* x, int64_t rows, float* y);
void mi_linear_add(const Matrix* w, const float* x, const float* resid, int64_t rows, float* y, float* sum);
void mi_large_pages(const void* address, int64_t bytes);
int64_t mi_takes_many(const Matrix* w);  // 1 if a product of many rows with it is faster here than torch's, else 0
void mi_gate(const float* both, int64_t rows, int64_t size, float* hidden);
void mi_mlp_hidden(const Matrix* gate_up, const float* x, int64_t rows, float* hidden);
void mi_rms_norm(const float* x, const float* weight, double eps, int64_t rows, int64_t size, float* y);
void mi_rope(const float* q, int64_t q_stride, const float* k, int64_t k_stride, const float* cos, const float* sin,
             int64_t rows, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, float* turned);
void mi_write_kv(const Cache* cache, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                 const int64_t* slots, int64_t rows, const int64_t* new_blocks, int64_t num_new);
void mi_attn_scores(const Cache* cache, const float* q, int64_t q_stride, int64_t num_heads, const int64_t* tables,
                    int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, float* scores);
void mi_attn_pattern(const float* scores, int64_t rows, int64_t context, float* pattern);
void mi_attn_mix(const Cache* cache, const float* pattern, int64_t num_heads, const int64_t* tables,
                 int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, float* z);

// Attention of many rows of one sequence, its last ones: row t of T sees the keys before C - T + t + 1. table [B].
void mi_attn_scores_rows(const Cache* cache, const float* q, int64_t q_stride, int64_t num_heads, const int64_t* table,
                         int64_t rows, int64_t context, float* scores);
void mi_attn_mix_rows(const Cache* cache, const float* pattern, int64_t num_heads, const int64_t* table, int64_t rows,
                      int64_t context, float* z);

// The same stages on the fields of a step.
void mi_step_attn_norm(const Step* step, int64_t layer);
void mi_step_qkv_proj(const Step* step, int64_t layer);
void mi_step_rope(const Step* step, int64_t layer);
void mi_step_write_kv(const Step* step, int64_t layer);
void mi_step_attn_scores(const Step* step, int64_t layer, float* scores);
void mi_step_attn_pattern(const Step* step, const float* scores, float* pattern);
void mi_step_attn_mix(const Step* step, int64_t layer, const float* pattern);
void mi_step_attn_out(const Step* step, int64_t layer);
void mi_step_mlp_norm(const Step* step, int64_t layer);
void mi_step_mlp_hidden(const Step* step, int64_t layer);
void mi_step_mlp_out(const Step* step, int64_t layer);

#ifdef __cplusplus
}
#endif
