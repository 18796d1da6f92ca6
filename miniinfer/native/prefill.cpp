// Attention of many rows of one sequence: a prompt, or a piece of one. Each key is read once for all rows that see it.
//
// Rows are its newest ones: row t of T sees the keys before C - T + t + 1. Keys are laid out in panels of 64 for the
// length of one part, one dimension after another, as a matrix of weights is (core.h: FLOAT32_PANELS).
#include <algorithm>
#include <limits>
#include <vector>

#include "cache.h"
#include "core.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr int TILE = 6, KEYS = 64, PARTS = KEYS / LANES;  // rows at a time; keys, or numbers of a value; their vectors
constexpr int64_t ROWS_A_PART = 192;
constexpr float HIDDEN = -std::numeric_limits<float>::infinity();

float* memory_of_thread(int64_t numbers) {
    static thread_local std::vector<float> memory;
    if (static_cast<int64_t>(memory.size()) < numbers) memory.resize(numbers);
    return memory.data();
}

const float* position(const Head& head, const Cache& cache, const int64_t* table, int64_t c) {
    return head.blocks + table[c / cache.block_size] * head.block_numbers + c % cache.block_size * cache.head_dim;
}

// acc [R][64] = sum over i of x[r][i * step] * panel[i][64].
template <int R>
void multiply(const float* x, int64_t row_stride, const float* panel, int64_t panel_stride, int64_t count,
              V (*acc)[PARTS]) {
    V sums[R][PARTS] = {};
    for (int64_t i = 0; i < count; i++, panel += panel_stride) {
        for (int r = 0; r < R; r++) {
            const V factor = all(x[r * row_stride + i]);
            for (int v = 0; v < PARTS; v++) sums[r][v] += load(panel + v * LANES) * factor;
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < PARTS; v++) acc[r][v] = sums[r][v];
}

void multiply(int rows, const float* x, int64_t row_stride, const float* panel, int64_t panel_stride, int64_t count,
              V (*acc)[PARTS]) {
    switch (rows) {
        case 1: return multiply<1>(x, row_stride, panel, panel_stride, count, acc);
        case 2: return multiply<2>(x, row_stride, panel, panel_stride, count, acc);
        case 3: return multiply<3>(x, row_stride, panel, panel_stride, count, acc);
        case 4: return multiply<4>(x, row_stride, panel, panel_stride, count, acc);
        case 5: return multiply<5>(x, row_stride, panel, panel_stride, count, acc);
        default: return multiply<TILE>(x, row_stride, panel, panel_stride, count, acc);
    }
}

}  // namespace

// scores [K, G, T, C] = q . k / sqrt(D), -inf behind what a row sees. A part: 64 keys of a head, with all rows.
void mi_attn_scores_rows(const Cache* cache, const float* q, int64_t q_stride, int64_t num_heads, const int64_t* table,
                         int64_t rows, int64_t context, float* scores) {
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads;
    const int64_t panels = (context + KEYS - 1) / KEYS, before = context - rows;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    share(cache->num_kv_heads * panels, num_heads * rows * context * size / 2, [&](int64_t part) {
        const int64_t kv = part % cache->num_kv_heads, first = part / cache->num_kv_heads * KEYS;
        const int64_t count = std::min<int64_t>(KEYS, context - first);
        const Head keys = head(*cache, 0, kv);
        float* panel = memory_of_thread(size * KEYS);
        for (int64_t c = 0; c < count; c++) {
            const float* key = position(keys, *cache, table, first + c);
            for (int64_t i = 0; i < size; i++) panel[i * KEYS + c] = key[i] * scale;
        }
        const int64_t seeing = std::min(rows, std::max<int64_t>(0, first - before));  // the first row that sees one
        for (int64_t g = 0; g < group; g++) {
            const float* queries = q + (kv * group + g) * size;
            float* to = scores + ((kv * group + g) * rows) * context + first;
            for (int64_t t = 0; t < seeing; t++) std::fill(to + t * context, to + t * context + count, HIDDEN);
            for (int64_t t = seeing; t < rows; t += TILE) {
                const int now = static_cast<int>(std::min<int64_t>(TILE, rows - t));
                float acc[TILE][KEYS];
                multiply(now, queries + t * q_stride, q_stride, panel, KEYS, size, reinterpret_cast<V(*)[PARTS]>(acc));
                for (int r = 0; r < now; r++) {
                    const int64_t seen = std::min(count, before + t + r + 1 - first);
                    for (int64_t c = seen; c < count; c++) acc[r][c] = HIDDEN;
                    float* its = to + (t + r) * context;
                    if (count == KEYS) std::memcpy(its, acc[r], sizeof acc[r]);  // of a size that is known: no call
                    else std::memcpy(its, acc[r], count * sizeof(float));
                }
            }
        }
    });
}

// z [T, H, D]: values mixed by pattern [K, G, T, C]. A part: some rows of a head, and 64 numbers of its values.
void mi_attn_mix_rows(const Cache* cache, const float* pattern, int64_t num_heads, const int64_t* table, int64_t rows,
                      int64_t context, float* z) {
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads;
    const int64_t ranges = (rows + ROWS_A_PART - 1) / ROWS_A_PART, columns = (size + KEYS - 1) / KEYS;
    share(cache->num_kv_heads * ranges * columns, num_heads * rows * context * size / 2, [&](int64_t part) {
        const int64_t kv = part % cache->num_kv_heads, column = part / cache->num_kv_heads % columns * KEYS;
        const int64_t first = part / cache->num_kv_heads / columns * ROWS_A_PART;
        const int64_t stop = std::min(first + ROWS_A_PART, rows), count = std::min<int64_t>(KEYS, size - column);
        const Head stored = head(*cache, 1, kv);
        float* values = memory_of_thread(context * KEYS);
        for (int64_t c = 0; c < context; c++) {
            std::memcpy(values + c * KEYS, position(stored, *cache, table, c) + column, count * sizeof(float));
            std::fill(values + c * KEYS + count, values + (c + 1) * KEYS, 0.0f);
        }
        for (int64_t g = 0; g < group; g++) {
            const int64_t h = kv * group + g;
            for (int64_t t = first; t < stop; t += TILE) {
                const int now = static_cast<int>(std::min<int64_t>(TILE, stop - t));
                const float* weights = pattern + (h * rows + t) * context;
                int64_t seen = 0;  // behind it all weights of these rows are 0, whoever has made them
                for (int r = 0; r < now; r++) seen = std::max(seen, length_but_for(weights + r * context, context, 0.0f));
                float acc[TILE][KEYS];
                multiply(now, weights, context, values, KEYS, seen, reinterpret_cast<V(*)[PARTS]>(acc));
                for (int r = 0; r < now; r++)
                    std::memcpy(z + ((t + r) * num_heads + h) * size + column, acc[r], count * sizeof(float));
            }
        }
    });
}
