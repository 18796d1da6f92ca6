// Decoding in C++: the stages of a layer, one function each, over the weights and the paged KV cache where they lie.
//
// vectors.h has the arithmetic of 16 floats, products.h the products, threads.h who does which part.
#include "core.h"

#include <limits>

#include "products.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr int64_t SMALL = 1 << 15;  // multiplications that are done sooner than a helper is told

threads::Crew& crew() {
    static auto* all = new threads::Crew;  // never deleted: helpers may outlive main
    return *all;
}

template <class Work> void share(int64_t parts, int64_t multiplications, const Work& work) {
    if (multiplications < SMALL) {
        for (int64_t i = 0; i < parts; i++) work(i);
    } else {
        crew().share(parts, work);
    }
}

template <class Then> void linear(const Matrix& w, const float* x, int64_t rows, float* y, const Then& then) {
    const Rows prepared(w, x, rows);
    const int64_t panels = (w.out + w.width - 1) / w.width;
    share(panels, w.out * w.in * rows, [&](int64_t number) {
        product(w, number, prepared, rows, y);
        then(number * w.width, std::min<int64_t>(w.out, (number + 1) * w.width));
    });
}

struct Head {  // the blocks of one key/value head
    const float* blocks;
    int64_t block_numbers;  // numbers of a block: P * D
};

Head head(const Cache& cache, int64_t which, int64_t kv_head) {
    const int64_t size = cache.block_size * cache.head_dim;
    return {cache.layer + (which * cache.num_kv_heads + kv_head) * cache.num_blocks * size, size};
}

}  // namespace

int64_t mi_version() { return 1; }

void mi_set_threads(int64_t count) { crew().resize(static_cast<int>(std::max<int64_t>(1, count))); }

void mi_linear(const Matrix* w, const float* x, int64_t rows, float* y) {
    linear(*w, x, rows, y, [](int64_t, int64_t) {});
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
    const int64_t size = gate_up->out / 2;
    std::vector<float> both(rows * gate_up->out + LANES);
    mi_linear(gate_up, x, rows, both.data());
    for (int64_t r = 0; r < rows; r++) {
        const float *gate = &both[r * gate_up->out], *up = gate + size;
        float* to = hidden + r * size;
        int64_t i = 0;
        for (; i + LANES <= size; i += LANES) {
            V g = load(gate + i);
            store(to + i, g / (1.0f + exp(-g)) * load(up + i));
        }
        for (; i < size; i++) to[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
}

void mi_rms_norm(const float* x, const float* weight, double eps, int64_t rows, int64_t size, float* y) {
    for (int64_t r = 0; r < rows; r++, x += size, y += size) {
        const float factor = 1.0f / std::sqrt(dot(x, x, size) / static_cast<float>(size) + static_cast<float>(eps));
        for (int64_t i = 0; i < size; i++) y[i] = x[i] * factor * weight[i];
    }
}

// turned [T, H + K, D]: q [T, H, D] and k [T, K, D], each pair (i, i + D / 2) turned by its angle; cos, sin [T, D].
void mi_rope(const float* q, int64_t q_stride, const float* k, int64_t k_stride, const float* cos, const float* sin,
             int64_t rows, int64_t num_heads, int64_t num_kv_heads, int64_t head_dim, float* turned) {
    const int64_t half = head_dim / 2;
    for (int64_t t = 0; t < rows; t++, cos += head_dim, sin += head_dim) {
        for (int64_t h = 0; h < num_heads + num_kv_heads; h++, turned += head_dim) {
            const bool query = h < num_heads;
            const float* from = query ? q + t * q_stride + h * head_dim : k + t * k_stride + (h - num_heads) * head_dim;
            for (int64_t i = 0; i < half; i++) {
                turned[i] = from[i] * cos[i] - from[half + i] * sin[i];
                turned[half + i] = from[half + i] * cos[half + i] + from[i] * sin[half + i];
            }
        }
    }
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

namespace {

// COUNT heads that read the same key: q . k * scale, each into its row of scores.
template <int COUNT>
void score(const float* queries, const float* key, int64_t size, float scale, int64_t context, float* scores) {
    V sums[COUNT] = {};
    float rest[COUNT] = {};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        const V part = load(key + i);
        for (int g = 0; g < COUNT; g++) sums[g] += load(queries + g * size + i) * part;
    }
    for (; i < size; i++)
        for (int g = 0; g < COUNT; g++) rest[g] += queries[g * size + i] * key[i];
    for (int g = 0; g < COUNT; g++) scores[g * context] = (sum(sums[g]) + rest[g]) * scale;
}

}  // namespace

// scores [K, S, G, C] = q . k / sqrt(D); -inf behind the end of a sequence. A part: some blocks of a sequence and head.
void mi_attn_scores(const Cache* cache, const float* q, int64_t q_stride, int64_t num_heads, const int64_t* tables,
                    int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, float* scores) {
    constexpr int64_t BLOCKS = 8;
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads, per_block = cache->block_size;
    const int64_t ranges = ((context + per_block - 1) / per_block + BLOCKS - 1) / BLOCKS;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    share(cache->num_kv_heads * num_seqs * ranges, num_heads * num_seqs * context * size, [&](int64_t part) {
        const int64_t range = part % ranges, s = part / ranges % num_seqs, kv = part / ranges / num_seqs;
        const Head keys = head(*cache, 0, kv);
        const float* queries = q + s * q_stride + kv * group * size;
        float* rows = scores + (kv * num_seqs + s) * group * context;
        const int64_t first = range * BLOCKS * per_block, stop = std::min(first + BLOCKS * per_block, context);
        const int64_t seen = std::min(stop, lens[s]);
        for (int64_t start = first; start < seen; start += per_block) {
            const float* key = keys.blocks + tables[s * table_size + start / per_block] * keys.block_numbers;
            for (int64_t c = start; c < std::min(start + per_block, seen); c++, key += size) {
                int64_t g = 0;
                for (; g + 3 <= group; g += 3)
                    score<3>(queries + g * size, key, size, scale, context, rows + g * context + c);
                for (; g < group; g++) score<1>(queries + g * size, key, size, scale, context, rows + g * context + c);
            }
        }
        for (int64_t g = 0; g < group; g++)
            for (int64_t c = std::max(first, seen); c < stop; c++)
                rows[g * context + c] = -std::numeric_limits<float>::infinity();
    });
}

// Softmax of each of the rows [rows, C].
void mi_attn_pattern(const float* scores, int64_t rows, int64_t context, float* pattern) {
    share(rows, rows * context * 8, [&](int64_t row) {
        const float* from = scores + row * context;
        float* to = pattern + row * context;
        const V none = all(-std::numeric_limits<float>::infinity());
        const int64_t whole = context / LANES * LANES, left = context - whole;
        V last = none;  // what does not fill a vector
        std::memcpy(&last, from + whole, left * sizeof(float));
        V best = last;
        for (int64_t c = 0; c < whole; c += LANES) {
            const V part = load(from + c);
            best = part > best ? part : best;  // a NaN may get lost here; it comes back in the sum
        }
        const float largest = max(best);
        V sums{};
        for (int64_t c = 0; c < whole; c += LANES) {
            const V part = exp(load(from + c) - largest);
            sums += part;
            store(to + c, part);
        }
        last = exp(last - largest);
        const float factor = 1.0f / sum(sums + last);
        for (int64_t c = 0; c < whole; c += LANES) store(to + c, load(to + c) * factor);
        last *= factor;
        std::memcpy(to + whole, &last, left * sizeof(float));
    });
}

namespace {

// COUNT heads that read the same values: sums of weights[c] * value[c] over the positions of a sequence.
template <int COUNT>
void mix(const Head& values, const int64_t* table, const Cache& cache, const float* weights, int64_t context,
         int64_t len, int64_t first, float* z) {
    V sums[COUNT][2] = {};
    for (int64_t b = 0; b * cache.block_size < len; b++) {
        const float* value = values.blocks + table[b] * values.block_numbers + first;
        const int64_t stop = std::min((b + 1) * cache.block_size, len);
        for (int64_t c = b * cache.block_size; c < stop; c++, value += cache.head_dim) {
            const V low = load(value), high = load(value + LANES);
            for (int g = 0; g < COUNT; g++) {
                sums[g][0] += low * weights[g * context + c];
                sums[g][1] += high * weights[g * context + c];
            }
        }
    }
    for (int g = 0; g < COUNT; g++) std::memcpy(z + g * cache.head_dim + first, sums[g], sizeof(sums[g]));
}

// The same for one head and any number of numbers.
void mix_plainly(const Head& values, const int64_t* table, const Cache& cache, const float* weights, int64_t len,
                 int64_t first, int64_t stop, float* z) {
    std::fill(z + first, z + stop, 0.0f);
    for (int64_t c = 0; c < len; c++) {
        const float* value = values.blocks + table[c / cache.block_size] * values.block_numbers +
                             c % cache.block_size * cache.head_dim;
        for (int64_t i = first; i < stop; i++) z[i] += weights[c] * value[i];
    }
}

}  // namespace

// z [S, H, D]: the values of each sequence mixed by pattern [K, S, G, C]. A part: 32 numbers of a sequence and head.
void mi_attn_mix(const Cache* cache, const float* pattern, int64_t num_heads, const int64_t* tables,
                 int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, float* z) {
    constexpr int64_t NUMBERS = 2 * LANES;
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads;
    const int64_t ranges = (size + NUMBERS - 1) / NUMBERS;
    share(cache->num_kv_heads * num_seqs * ranges, num_heads * num_seqs * context * size, [&](int64_t part) {
        const int64_t first = part % ranges * NUMBERS, s = part / ranges % num_seqs, kv = part / ranges / num_seqs;
        const Head values = head(*cache, 1, kv);
        const int64_t* table = tables + s * table_size;
        const float* weights = pattern + (kv * num_seqs + s) * group * context;
        float* to = z + (s * num_heads + kv * group) * size;
        for (int64_t g = 0; g < group;) {
            const float* its_weights = weights + g * context;
            float* its_z = to + g * size;
            if (first + NUMBERS > size) {
                mix_plainly(values, table, *cache, its_weights, lens[s], first, size, its_z);
                g++;
            } else if (group - g >= 3) {
                mix<3>(values, table, *cache, its_weights, context, lens[s], first, its_z);
                g += 3;
            } else {
                mix<1>(values, table, *cache, its_weights, context, lens[s], first, its_z);
                g++;
            }
        }
    });
}
