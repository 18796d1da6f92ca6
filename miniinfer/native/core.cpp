// The stages of a layer but for attention, one function each, over the weights and the paged KV cache where they lie.
//
// attention.cpp and prefill.cpp have attention, products.h and many.h the products, vectors.h the arithmetic of 16
// floats, threads.h who does which part.
#include "core.h"

#include <cstring>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cache.h"
#include "many.h"
#include "products.h"
#include "threads.h"

namespace {

// A product of many rows is shared by panels and by ranges of rows: panels alone are often too few to be shared evenly.
constexpr int64_t ROWS_A_RANGE = 192;

// work(panel, first row, the row behind the last)
template <class Work> void share_product(int64_t panels, int64_t rows, int64_t multiplications, const Work& work) {
    const int64_t ranges = (rows + ROWS_A_RANGE - 1) / ROWS_A_RANGE;
    share(panels * ranges, multiplications, [&](int64_t part) {
        const int64_t first = part / panels * ROWS_A_RANGE;
        work(part % panels, first, std::min(rows, first + ROWS_A_RANGE));
    });
}

#if BYTE_PRODUCTS
// From so many rows on many.h is faster than one row after another (bench: docs/performance.md).
constexpr int64_t MANY_ROWS = 9;

bool many(const Matrix& w, int64_t rows) { return takes_many(w) && rows >= MANY_ROWS; }

const WholeRows& whole_rows(const float* x, int64_t in, int64_t rows) {
    static thread_local WholeRows prepared;  // of the thread that calls: new memory would have to be mapped each time
    prepared.resize(in, rows);
    WholeRows& to = prepared;
    share(rows, rows * in * 4, [&](int64_t row) { to.round(x, row); });
    return prepared;
}

template <class Then> void linear_many(const Matrix& w, const float* x, int64_t rows, float* y, const Then& then) {
    const WholeRows& prepared = whole_rows(x, w.in, rows);
    share_product(w.out / PANEL, rows, w.out * w.in * rows, [&](int64_t number, int64_t begin, int64_t end) {
        const Unpacked panel(w, number, panel_memory(0));
        tiles(begin, end, [&](int64_t first, int count) {
            V acc[MOST_TILE][PARTS];
            panel.multiply(prepared, first, count, acc);
            for (int r = 0; r < count; r++) store_some(y + (first + r) * w.out + number * PANEL, acc[r], PANEL);
            then(first, first + count, number * PANEL, (number + 1) * PANEL);
        });
    });
}
#endif

template <class N> void gated(const V* gate, const V* up, int64_t count, N* hidden) {
    V result[MAX_VECTORS];
    for (int v = 0; v * LANES < count; v++) result[v] = silu(gate[v]) * up[v];
    store_some(hidden, result, count);
}

#if BYTE_PRODUCTS
// silu(gate) * up without the products themselves in memory: the same panel of both, tile by tile.
void mlp_hidden_many(const Matrix& w, const float* x, int64_t rows, float* hidden) {
    const int64_t size = w.out / 2, panels = size / PANEL;
    const WholeRows& prepared = whole_rows(x, w.in, rows);
    share_product(panels, rows, w.out * w.in * rows, [&](int64_t number, int64_t begin, int64_t end) {
        const Unpacked gate(w, number, panel_memory(0)), up(w, number + panels, panel_memory(1));
        tiles(begin, end, [&](int64_t first, int count) {
            V opens[MOST_TILE][PARTS], passes[MOST_TILE][PARTS];
            gate.multiply(prepared, first, count, opens);
            up.multiply(prepared, first, count, passes);
            for (int r = 0; r < count; r++)
                gated(opens[r], passes[r], PANEL, hidden + (first + r) * size + number * PANEL);
        });
    });
}
#endif

// The same for a dense matrix and any number of rows.
template <class N> void mlp_hidden_dense(const Matrix& w, const N* x, int64_t rows, N* hidden) {
    const int64_t size = w.out / 2, panels = size / w.width;
    share_product(panels, rows, w.out * w.in * rows, [&](int64_t number, int64_t begin, int64_t end) {
        tiles(begin, end, [&](int64_t first, int count) {
            V opens[MOST_TILE][MAX_VECTORS], passes[MOST_TILE][MAX_VECTORS];
            dense_tile(w, number, x + first * w.in, count, opens);
            dense_tile(w, number + panels, x + first * w.in, count, passes);
            for (int r = 0; r < count; r++)
                gated(opens[r], passes[r], w.width, hidden + (first + r) * size + number * w.width);
        });
    });
}

// y = x W^T, and then(first row, behind the last, first column, behind the last) for each piece of y that is done.
template <class N, class Then> void linear(const Matrix& w, const N* x, int64_t rows, N* y, const Then& then) {
    const int64_t panels = (w.out + w.width - 1) / w.width;
    if (is_dense(w)) {
        share_product(panels, rows, w.out * w.in * rows, [&](int64_t number, int64_t begin, int64_t end) {
            const int64_t column = number * w.width, width = std::min<int64_t>(w.width, w.out - column);
            tiles(begin, end, [&](int64_t first, int count) {
                V acc[MOST_TILE][MAX_VECTORS];
                dense_tile(w, number, x + first * w.in, count, acc);
                for (int r = 0; r < count; r++) store_some(y + (first + r) * w.out + column, acc[r], width);
                then(first, first + count, column, column + width);
            });
        });
    } else if constexpr (std::is_same_v<N, float>) {  // rows of packed weights are float32
#if BYTE_PRODUCTS
        if (many(w, rows)) return linear_many(w, x, rows, y, then);
#endif
        const Rows prepared(w, x, rows);
        share(panels, w.out * w.in * rows, [&](int64_t number) {
            product(w, number, prepared, rows, y);
            then(0, rows, number * w.width, std::min<int64_t>(w.out, (number + 1) * w.width));
        });
    }
}

constexpr int64_t ROWS_A_PART = 16;  // of a stage that works on each row by itself

template <class Work> void share_rows(int64_t rows, int64_t multiplications, const Work& work) {
    share((rows + ROWS_A_PART - 1) / ROWS_A_PART, multiplications, [&](int64_t part) {
        const int64_t stop = std::min(rows, (part + 1) * ROWS_A_PART);
        for (int64_t row = part * ROWS_A_PART; row < stop; row++) work(row);
    });
}

}  // namespace

int64_t mi_version() { return 4; }

void mi_set_threads(int64_t count) { threads::crew().resize(static_cast<int>(std::max<int64_t>(1, count))); }

const void* mi_function(const char* name, int64_t bfloat16) {
    for (const Entry* table : {STAGE_ENTRIES, ATTENTION_ENTRIES, PREFILL_ENTRIES, STEP_ENTRIES})
        for (; table->name != nullptr; table++)
            if (std::strcmp(table->name, name) == 0) return bfloat16 ? table->bfloat16 : table->float32;
    return nullptr;
}

template <class N> void mi_linear(const Matrix* w, const N* x, int64_t rows, N* y) {
    linear(*w, x, rows, y, [](int64_t, int64_t, int64_t, int64_t) {});
}

// Move this memory into pages of 2 MB where the system can: a product that reads a matrix then waits less for the
// addresses of its pages. What lies beside it in the same pages comes along. The numbers and addresses stay.
void mi_large_pages(const void* address, int64_t bytes) {
#if defined(__linux__)
    constexpr uintptr_t SIZE = uintptr_t{1} << 21;
    constexpr int COLLAPSE = 25;  // MADV_COLLAPSE, which older headers do not name; older systems refuse it
    const uintptr_t first = reinterpret_cast<uintptr_t>(address) / SIZE * SIZE;
    const uintptr_t stop = (reinterpret_cast<uintptr_t>(address) + bytes + SIZE - 1) / SIZE * SIZE;
    for (uintptr_t page = first; page < stop; page += SIZE) madvise(reinterpret_cast<void*>(page), SIZE, COLLAPSE);
#endif
}

int64_t mi_takes_many(const Matrix* w) {
    // What a tile of rows and a panel need must fit into the registers.
#if defined(__AVX512F__)
    if (w->layout == FLOAT32_PANELS) return w->width >= 2 * LANES;
#endif
#if defined(__AVX512BF16__)
    if (w->layout == BFLOAT16_PANELS) return w->width >= 2 * LANES;
#endif
#if BYTE_PRODUCTS
    return takes_many(*w);
#else
    return 0;
#endif
}

// attn_out and mlp_out: y = x W^T and sum = resid + y.
template <class N>
void mi_linear_add(const Matrix* w, const N* x, const N* resid, int64_t rows, N* y, N* sum) {
    linear(*w, x, rows, y, [&](int64_t first, int64_t stop, int64_t column, int64_t last_column) {
        for (int64_t r = first; r < stop; r++) {
            int64_t i = r * w->out + column;
            const int64_t end = r * w->out + last_column;
            for (; i + LANES <= end; i += LANES) store(sum + i, load(resid + i) + load(y + i));
            for (; i < end; i++) sum[i] = N(resid[i] + y[i]);
        }
    });
}

// hidden = silu(gate) * up, where gate are the first and up the last half of the rows of the product.
template <class N> void mi_mlp_hidden(const Matrix* gate_up, const N* x, int64_t rows, N* hidden) {
    const Matrix& w = *gate_up;
    if (is_dense(w) && w.out / 2 % w.width == 0) return mlp_hidden_dense(w, x, rows, hidden);
#if BYTE_PRODUCTS
    if constexpr (std::is_same_v<N, float>)
        if (many(w, rows) && w.out / 2 % PANEL == 0) return mlp_hidden_many(w, x, rows, hidden);
#endif
    std::vector<N> both(rows * w.out);
    mi_linear(gate_up, x, rows, both.data());
    mi_gate(both.data(), rows, w.out / 2, hidden);
}

// hidden [T, F] = silu(gate) * up, both of them in `both` [T, 2F].
template <class N> void mi_gate(const N* both, int64_t rows, int64_t size, N* hidden) {
    share_rows(rows, rows * size * 8, [&](int64_t r) {
        const N *gate = both + r * 2 * size, *up = gate + size;
        N* to = hidden + r * size;
        int64_t i = 0;
        for (; i + LANES <= size; i += LANES) store(to + i, silu(load(gate + i)) * load(up + i));
        for (; i < size; i++) to[i] = N(gate[i] / (1.0f + std::exp(-gate[i])) * up[i]);
    });
}

// x [T, E]: rows of a Q8_0 matrix [V, E]. An id that is not in it becomes NaN, as a fault that can be seen.
template <class N>
void mi_embed(const uint8_t* matrix, int64_t vocab_size, const int64_t* ids, int64_t rows, int64_t size, N* x) {
    const int64_t blocks = size / GROUP;
    share_rows(rows, rows * size, [&](int64_t r) {
        N* to = x + r * size;
        if (ids[r] < 0 || ids[r] >= vocab_size) {
            for (int64_t i = 0; i < size; i++) to[i] = N(NAN);
            return;
        }
        const uint8_t* block = matrix + ids[r] * blocks * Q8_BLOCK;
        for (int64_t g = 0; g < blocks; g++, block += Q8_BLOCK, to += GROUP) {
            const int8_t* q = reinterpret_cast<const int8_t*>(block + 2);
            const float scale = half_to_float(block);
            for (int64_t i = 0; i < GROUP; i += LANES) store(to + i, as_floats(widen(q + i)) * scale);
        }
    });
}

template <class N>
void mi_rms_norm(const N* x, const N* weight, double eps, int64_t rows, int64_t size, N* y) {
    share_rows(rows, rows * size * 4, [&](int64_t r) {
        const N* from = x + r * size;
        N* to = y + r * size;
        const float mean_square = dot(from, from, size) / static_cast<float>(size);
        const float factor = 1.0f / std::sqrt(mean_square + static_cast<float>(eps));
        int64_t i = 0;
        for (; i + LANES <= size; i += LANES) store(to + i, load(from + i) * factor * load(weight + i));
        for (; i < size; i++) to[i] = N(from[i] * factor * weight[i]);
    });
}

// turned [T, H + K, D]: q [T, H, D] and k [T, K, D], each pair (i, i + D / 2) turned by its angle; cos, sin [T, D].
template <class N>
void mi_rope(const N* q, int64_t q_stride, const N* k, int64_t k_stride, const N* cos, const N* sin, int64_t rows,
             int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, N* turned) {
    const int64_t half = head_dim / 2, heads = num_heads + num_kv_heads;
    share_rows(rows, rows * heads * head_dim * 2, [&](int64_t t) {
        const N *its_cos = cos + t * head_dim, *its_sin = sin + t * head_dim;
        N* to = turned + t * heads * head_dim;
        for (int64_t h = 0; h < heads; h++, to += head_dim) {
            const bool query = h < num_heads;
            const N* from = query ? q + t * q_stride + h * head_dim : k + t * k_stride + (h - num_heads) * head_dim;
            int64_t i = 0;
            for (; i + LANES <= half; i += LANES) {
                const V a = load(from + i), b = load(from + half + i);
                store(to + i, a * load(its_cos + i) - b * load(its_sin + i));
                store(to + half + i, b * load(its_cos + half + i) + a * load(its_sin + half + i));
            }
            for (; i < half; i++) {
                to[i] = N(from[i] * its_cos[i] - from[half + i] * its_sin[i]);
                to[half + i] = N(from[half + i] * its_cos[half + i] + from[i] * its_sin[half + i]);
            }
        }
    });
}

// The only function that writes into the cache: new blocks become zeros, then row t goes to slots[t].
template <class N>
void mi_write_kv(const Cache<N>* cache, const N* k, int64_t k_stride, const N* v, int64_t v_stride,
                 const int64_t* slots, int64_t rows, const int64_t* new_blocks, int64_t num_new) {
    for (int64_t which = 0; which < 2; which++) {
        const N* from = which == 0 ? k : v;
        const int64_t stride = which == 0 ? k_stride : v_stride;
        for (int64_t h = 0; h < cache->num_kv_heads; h++) {
            const Head<N> to = head(*cache, which, h);
            N* blocks = const_cast<N*>(to.blocks);
            for (int64_t i = 0; i < num_new; i++)
                std::memset(blocks + new_blocks[i] * to.block_numbers, 0, to.block_numbers * sizeof(N));
            for (int64_t t = 0; t < rows; t++)
                std::memcpy(blocks + slots[t] * cache->head_dim, from + t * stride + h * cache->head_dim,
                            cache->head_dim * sizeof(N));
        }
    }
}

const Entry STAGE_ENTRIES[] = {
    MI_ENTRY(mi_linear), MI_ENTRY(mi_linear_add), MI_ENTRY(mi_gate), MI_ENTRY(mi_mlp_hidden), MI_ENTRY(mi_rms_norm),
    MI_ENTRY(mi_rope), MI_ENTRY(mi_write_kv), MI_ENTRY(mi_embed), Entry{},
};
