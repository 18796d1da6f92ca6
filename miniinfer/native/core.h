// The C interface of the core: what library.py calls. One function for each stage of decoding, and `mi_linear` for a
// product by itself. All numbers are float32; shape letters as in config.py, T rows (one for each sequence: decode).
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

int64_t mi_version(void);
void mi_set_threads(int64_t count);  // that work on one call, the caller included

void mi_linear(const Matrix* w, const float* x, int64_t rows, float* y);
void mi_linear_add(const Matrix* w, const float* x, const float* resid, int64_t rows, float* y, float* sum);
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

#ifdef __cplusplus
}
#endif
