// The stages of a layer but for attention, one function each, over the weights and the paged KV cache where they lie.
//
// attention.cpp and prefill.cpp have attention, products.h and many.h the products, vectors.h the arithmetic of 16
// floats, threads.h who does which part.
#include "core.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cache.h"
#include "many.h"
#include "products.h"
#include "threads.h"
#include "vectors.h"

namespace {

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
    share(w.out / PANEL, w.out * w.in * rows, [&](int64_t number) {
        const Unpacked panel(w, number, panel_memory(0));
        tiles(rows, [&](int64_t first, int count) {
            V acc[MANY_TILE][PARTS];
            panel.multiply(prepared, first, count, acc);
            for (int r = 0; r < count; r++) std::memcpy(y + (first + r) * w.out + number * PANEL, acc[r], sizeof acc[r]);
        });
        then(number * PANEL, (number + 1) * PANEL);
    });
}

// silu(gate) * up without the products themselves in memory: the same panel of both, tile by tile.
void mlp_hidden_many(const Matrix& w, const float* x, int64_t rows, float* hidden) {
    const int64_t size = w.out / 2, panels = size / PANEL;
    const WholeRows& prepared = whole_rows(x, w.in, rows);
    share(panels, w.out * w.in * rows, [&](int64_t number) {
        const Unpacked gate(w, number, panel_memory(0)), up(w, number + panels, panel_memory(1));
        tiles(rows, [&](int64_t first, int count) {
            V opens[MANY_TILE][PARTS], passes[MANY_TILE][PARTS];
            gate.multiply(prepared, first, count, opens);
            up.multiply(prepared, first, count, passes);
            for (int r = 0; r < count; r++)
                for (int v = 0; v < PARTS; v++)
                    store(hidden + (first + r) * size + number * PANEL + v * LANES, silu(opens[r][v]) * passes[r][v]);
        });
    });
}
#endif

template <class Then> void linear(const Matrix& w, const float* x, int64_t rows, float* y, const Then& then) {
#if BYTE_PRODUCTS
    if (many(w, rows)) return linear_many(w, x, rows, y, then);
#endif
    const Rows prepared(w, x, rows);
    const int64_t panels = (w.out + w.width - 1) / w.width;
    share(panels, w.out * w.in * rows, [&](int64_t number) {
        product(w, number, prepared, rows, y);
        then(number * w.width, std::min<int64_t>(w.out, (number + 1) * w.width));
    });
}

constexpr int64_t ROWS_A_PART = 16;  // of a stage that works on each row by itself

template <class Work> void share_rows(int64_t rows, int64_t multiplications, const Work& work) {
    share((rows + ROWS_A_PART - 1) / ROWS_A_PART, multiplications, [&](int64_t part) {
        const int64_t stop = std::min(rows, (part + 1) * ROWS_A_PART);
        for (int64_t row = part * ROWS_A_PART; row < stop; row++) work(row);
    });
}

}  // namespace

int64_t mi_version() { return 2; }

void mi_set_threads(int64_t count) { threads::crew().resize(static_cast<int>(std::max<int64_t>(1, count))); }

void mi_linear(const Matrix* w, const float* x, int64_t rows, float* y) {
    linear(*w, x, rows, y, [](int64_t, int64_t) {});
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
#if BYTE_PRODUCTS
    return takes_many(*w);
#else
    return 0;
#endif
}

// attn_out and mlp_out: y = x W^T and sum = resid + y.
void mi_linear_add(const Matrix* w, const float* x, const float* resid, int64_t rows, float* y, float* sum) {
    linear(*w, x, rows, y, [&](int64_t first, int64_t stop) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = r * w->out + first; i < r * w->out + stop; i++) sum[i] = resid[i] + y[i];
    });
}

// hidden = silu(gate) * up, where gate are the first and up the last half of the rows of the product.
void mi_mlp_hidden(const Matrix* gate_up, const float* x, int64_t rows, float* hidden) {
#if BYTE_PRODUCTS
    if (many(*gate_up, rows) && gate_up->out / 2 % PANEL == 0) return mlp_hidden_many(*gate_up, x, rows, hidden);
#endif
    std::vector<float> both(rows * gate_up->out + LANES);
    mi_linear(gate_up, x, rows, both.data());
    mi_gate(both.data(), rows, gate_up->out / 2, hidden);
}

// hidden [T, F] = silu(gate) * up, both of them in `both` [T, 2F].
void mi_gate(const float* both, int64_t rows, int64_t size, float* hidden) {
    share_rows(rows, rows * size * 8, [&](int64_t r) {
        const float *gate = both + r * 2 * size, *up = gate + size;
        float* to = hidden + r * size;
        int64_t i = 0;
        for (; i + LANES <= size; i += LANES) store(to + i, silu(load(gate + i)) * load(up + i));
        for (; i < size; i++) to[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    });
}

void mi_rms_norm(const float* x, const float* weight, double eps, int64_t rows, int64_t size, float* y) {
    share_rows(rows, rows * size * 4, [&](int64_t r) {
        const float* from = x + r * size;
        float* to = y + r * size;
        const float mean_square = dot(from, from, size) / static_cast<float>(size);
        const float factor = 1.0f / std::sqrt(mean_square + static_cast<float>(eps));
        for (int64_t i = 0; i < size; i++) to[i] = from[i] * factor * weight[i];
    });
}

// turned [T, H + K, D]: q [T, H, D] and k [T, K, D], each pair (i, i + D / 2) turned by its angle; cos, sin [T, D].
void mi_rope(const float* q, int64_t q_stride, const float* k, int64_t k_stride, const float* cos, const float* sin,
             int64_t rows, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, float* turned) {
    const int64_t half = head_dim / 2, heads = num_heads + num_kv_heads;
    share_rows(rows, rows * heads * head_dim * 2, [&](int64_t t) {
        const float *its_cos = cos + t * head_dim, *its_sin = sin + t * head_dim;
        float* to = turned + t * heads * head_dim;
        for (int64_t h = 0; h < heads; h++, to += head_dim) {
            const bool query = h < num_heads;
            const float* from = query ? q + t * q_stride + h * head_dim : k + t * k_stride + (h - num_heads) * head_dim;
            int64_t i = 0;
            for (; i + LANES <= half; i += LANES) {
                const V a = load(from + i), b = load(from + half + i);
                store(to + i, a * load(its_cos + i) - b * load(its_sin + i));
                store(to + half + i, b * load(its_cos + half + i) + a * load(its_sin + half + i));
            }
            for (; i < half; i++) {
                to[i] = from[i] * its_cos[i] - from[half + i] * its_sin[i];
                to[half + i] = from[half + i] * its_cos[half + i] + from[i] * its_sin[half + i];
            }
        }
    });
}

// The only function that writes into the cache: new blocks become zeros, then row t goes to slots[t].
void mi_write_kv(const Cache* cache, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                 const int64_t* slots, int64_t rows, const int64_t* new_blocks, int64_t num_new) {
    for (int64_t which = 0; which < 2; which++) {
        const float* from = which == 0 ? k : v;
        const int64_t stride = which == 0 ? k_stride : v_stride;
        for (int64_t h = 0; h < cache->num_kv_heads; h++) {
            const Head to = head(*cache, which, h);
            float* blocks = const_cast<float*>(to.blocks);
            for (int64_t i = 0; i < num_new; i++)
                std::memset(blocks + new_blocks[i] * to.block_numbers, 0, to.block_numbers * sizeof(float));
            for (int64_t t = 0; t < rows; t++)
                std::memcpy(blocks + slots[t] * cache->head_dim, from + t * stride + h * cache->head_dim,
                            cache->head_dim * sizeof(float));
        }
    }
}
