// Attention of many rows of one sequence: a prompt, or a piece of one. Each key is read once for all rows that see it.
//
// Rows are its newest ones: row t of T sees the keys before C - T + t + 1. Keys and values are laid out in panels of 64
// for the length of one part, as a matrix of weights is (numbers.h).
#include <algorithm>
#include <limits>
#include <vector>

#include "cache.h"
#include "core.h"
#include "threads.h"

namespace {

constexpr int KEYS = 64, PARTS = KEYS / LANES;  // keys, or numbers of a value; their vectors
constexpr int64_t ROWS_A_PART = 192;
constexpr float HIDDEN = -std::numeric_limits<float>::infinity();
static_assert(PARTS == MAX_VECTORS);

template <class N> const N* position(const Head<N>& head, const Cache<N>& cache, const int64_t* table, int64_t c) {
    return head.blocks + table[c / cache.block_size] * head.block_numbers + c % cache.block_size * cache.head_dim;
}

// Column c of a panel of keys: the numbers of one key.
void put_key(float* panel, int64_t c, const float* key, int64_t size) {
    for (int64_t i = 0; i < size; i++) panel[i * KEYS + c] = key[i];
}

void put_key(Bfloat16* panel, int64_t c, const Bfloat16* key, int64_t size) {
    for (int64_t i = 0; i + 1 < size; i += 2) std::memcpy(panel + i * KEYS + 2 * c, key + i, 2 * sizeof *key);
    if (size % 2) panel[(size - 1) * KEYS + 2 * c] = key[size - 1];
}

// Positions c and c + 1 of a panel of values: `count` numbers of each; there may be no second one.
void put_values(float* panel, int64_t c, const float* first, const float* second, int64_t count) {
    for (const float* value : {first, second}) {
        if (value == nullptr) break;
        float* to = panel + c++ * KEYS;
        std::memcpy(to, value, count * sizeof(float));
        std::fill(to + count, to + KEYS, 0.0f);
    }
}

void put_values(Bfloat16* panel, int64_t c, const Bfloat16* first, const Bfloat16* second, int64_t count) {
    VU* pairs = reinterpret_cast<VU*>(panel + c * KEYS);
    Bfloat16 padded[2][KEYS] = {};
    if (count < KEYS || second == nullptr) {  // rare: what is not whole vectors, and the last position of an odd number
        std::memcpy(padded[0], first, count * sizeof *first);
        if (second != nullptr) std::memcpy(padded[1], second, count * sizeof *first);
        first = padded[0];
        second = padded[1];
    }
    for (int v = 0; v < PARTS; v++) pairs[v] = widen(first + v * LANES) | widen(second + v * LANES) << 16;
}

V larger(V a, V b) { return (b > a) | (b != b) ? b : a; }  // a NaN stays

// largest [C] = in each column the largest number of some rows, one after another as they lie in memory.
template <class N> void largest_of_rows(const N* row, int64_t stride, int64_t rows, int64_t context, float* largest) {
    const int64_t whole = context / LANES * LANES;
    for (int64_t c = 0; c < context; c++) largest[c] = row[c];
    for (int64_t r = 1; r < rows; r++) {
        row += stride;
        for (int64_t c = 0; c < whole; c += LANES) store(largest + c, larger(load(largest + c), load(row + c)));
        for (int64_t c = whole; c < context; c++) largest[c] = larger(all(largest[c]), all(row[c]))[0];
    }
}

}  // namespace

// scores [K, G, T, C] = q . k / sqrt(D), -inf behind what a row sees. A part: 64 keys of a head, with all rows.
template <class N>
void mi_attn_scores_rows(const Cache<N>* cache, const N* q, int64_t q_stride, int64_t num_heads, const int64_t* table,
                         int64_t rows, int64_t context, N* scores) {
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads;
    const int64_t panels = (context + KEYS - 1) / KEYS, before = context - rows;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    share(cache->num_kv_heads * panels, num_heads * rows * context * size / 2, [&](int64_t part) {
        const int64_t kv = part % cache->num_kv_heads, first = part / cache->num_kv_heads * KEYS;
        const int64_t count = std::min<int64_t>(KEYS, context - first);
        const Head<N> keys = head(*cache, 0, kv);
        N* panel = reinterpret_cast<N*>(memory_of_thread((size + 1) * KEYS));
        for (int64_t c = 0; c < count; c++) put_key(panel, c, position(keys, *cache, table, first + c), size);
        const int64_t seeing = std::min(rows, std::max<int64_t>(0, first - before));  // the first row that sees one
        for (int64_t g = 0; g < group; g++) {
            const N* queries = q + (kv * group + g) * size;
            N* to = scores + ((kv * group + g) * rows) * context + first;
            for (int64_t t = 0; t < seeing; t++) std::fill(to + t * context, to + t * context + count, N(HIDDEN));
            tiles(seeing, rows, [&](int64_t t, int now) {
                V acc[MOST_TILE][PARTS];
                multiply<PARTS>(now, queries + t * q_stride, q_stride, panel, size, acc);
                for (int r = 0; r < now; r++) {
                    for (V& vector : acc[r]) vector *= scale;
                    const int64_t seen = std::min(count, before + t + r + 1 - first);
                    N* its = to + (t + r) * context;
                    store_some(its, acc[r], count);
                    for (int64_t c = seen; c < count; c++) its[c] = N(HIDDEN);
                }
            });
        }
    });
}

// z [T, H, D]: values mixed by pattern [K, G, T, C]. A part: some rows of a head, and 64 numbers of its values.
template <class N>
void mi_attn_mix_rows(const Cache<N>* cache, const N* pattern, int64_t num_heads, const int64_t* table, int64_t rows,
                      int64_t context, N* z) {
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads;
    const int64_t ranges = (rows + ROWS_A_PART - 1) / ROWS_A_PART, columns = (size + KEYS - 1) / KEYS;
    share(cache->num_kv_heads * ranges * columns, num_heads * rows * context * size / 2, [&](int64_t part) {
        const int64_t kv = part % cache->num_kv_heads, column = part / cache->num_kv_heads % columns * KEYS;
        const int64_t first = part / cache->num_kv_heads / columns * ROWS_A_PART;
        const int64_t stop = std::min(first + ROWS_A_PART, rows), count = std::min<int64_t>(KEYS, size - column);
        const Head<N> stored = head(*cache, 1, kv);
        N* values = reinterpret_cast<N*>(memory_of_thread((context + 1) * KEYS));
        for (int64_t c = 0; c < context; c += 2) {
            const N* second = c + 1 < context ? position(stored, *cache, table, c + 1) + column : nullptr;
            put_values(values, c, position(stored, *cache, table, c) + column, second, count);
        }
        for (int64_t g = 0; g < group; g++) {
            const int64_t h = kv * group + g;
            tiles(first, stop, [&](int64_t t, int now) {
                const N* weights = pattern + (h * rows + t) * context;
                int64_t seen = 0;  // behind it all weights of these rows are 0, whoever has made them
                for (int r = 0; r < now; r++) seen = std::max(seen, length_but_for(weights + r * context, context, 0.0f));
                V acc[MOST_TILE][PARTS];
                multiply<PARTS>(now, weights, context, values, seen, acc);
                for (int r = 0; r < now; r++) store_some(z + ((t + r) * num_heads + h) * size + column, acc[r], count);
            });
        }
    });
}

// A part: the rows of one cell in one head.
template <class N>
void mi_largest_in_cells(const N* pattern, int64_t head_stride, int64_t row_stride, int64_t num_heads, int64_t rows,
                         int64_t context, int64_t start, int64_t cell, float* pooled) {
    const int64_t first_cell = start / cell, bands = (start + rows - 1) / cell - first_cell + 1;
    const int64_t columns = (context + cell - 1) / cell;
    share(num_heads * bands, num_heads * rows * context, [&](int64_t part) {
        const int64_t h = part / bands, band = part % bands;
        const int64_t low = std::max<int64_t>(0, (first_cell + band) * cell - start);
        const int64_t high = std::min(rows, (first_cell + band + 1) * cell - start);
        float* largest = memory_of_thread(context);
        largest_of_rows(pattern + h * head_stride + low * row_stride, row_stride, high - low, context, largest);
        for (int64_t column = 0; column < columns; column++) {
            float best = largest[column * cell];
            for (int64_t c = column * cell + 1; c < std::min(context, (column + 1) * cell); c++)
                best = largest[c] > best || largest[c] != largest[c] ? largest[c] : best;
            pooled[part * columns + column] = best;
        }
    });
}

const Entry PREFILL_ENTRIES[] = {
    MI_ENTRY(mi_attn_scores_rows), MI_ENTRY(mi_attn_mix_rows), MI_ENTRY(mi_largest_in_cells), Entry{},
};
