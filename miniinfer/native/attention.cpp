// Attention of decode: one row a sequence, which reads all its keys and values. A part is some blocks of one sequence and
// key/value head, so that every number of the cache is read once, by one thread.
#include <limits>
#include <vector>

#include "cache.h"
#include "core.h"
#include "threads.h"
#include "vectors.h"

namespace {

constexpr int64_t LINE = 64;   // bytes that memory gives at once
constexpr int64_t AHEAD = 512;  // numbers: what is asked of memory before it is needed, for that stops at page ends

template <class N> void ask_for(const N* numbers, int64_t size) {
    for (int64_t i = 0; i < size; i += LINE / static_cast<int64_t>(sizeof(N))) __builtin_prefetch(numbers + i);
}

// COUNT heads that read the same key: q . k * scale, each into its row of scores.
template <int COUNT, class N>
void score(const N* queries, const N* key, int64_t size, float scale, int64_t context, N* scores) {
    V sums[COUNT] = {};
    float rest[COUNT] = {};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        const V part = load(key + i);
        for (int g = 0; g < COUNT; g++) sums[g] += load(queries + g * size + i) * part;
    }
    for (; i < size; i++)
        for (int g = 0; g < COUNT; g++) rest[g] += queries[g * size + i] * key[i];
    for (int g = 0; g < COUNT; g++) scores[g * context] = N((sum(sums[g]) + rest[g]) * scale);
}

// Softmax of one row. A number is rounded once, so until their sum is known the powers of e stand in `powers` [C].
template <class N> void softmax(const N* from, int64_t context, float* powers, N* to) {
    const V none = all(-std::numeric_limits<float>::infinity());
    const int64_t seen = length_but_for(from, context, -std::numeric_limits<float>::infinity());
    std::fill(to + seen, to + context, N(seen ? 0.0f : std::nanf("")));  // of nothing at all no share can be taken
    const int64_t whole = seen / LANES * LANES, left = seen - whole;
    V last = none;  // what does not fill a vector
    for (int64_t i = 0; i < left; i++) last[i] = from[whole + i];
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
        store(powers + c, part);
    }
    last = exp(last - largest);
    const float factor = 1.0f / sum(sums + last);
    for (int64_t c = 0; c < whole; c += LANES) store(to + c, load(powers + c) * factor);
    last *= factor;
    for (int64_t i = 0; i < left; i++) to[whole + i] = N(last[i]);
}

}  // namespace

// scores [K, S, G, C] = q . k / sqrt(D); -inf behind the end of a sequence.
template <class N>
void mi_attn_scores(const Cache<N>* cache, const N* q, int64_t q_stride, int64_t num_heads, const int64_t* tables,
                    int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, N* scores) {
    constexpr int64_t BLOCKS = 8;
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads, per_block = cache->block_size;
    const int64_t ranges = ((context + per_block - 1) / per_block + BLOCKS - 1) / BLOCKS;
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    share(cache->num_kv_heads * num_seqs * ranges, num_heads * num_seqs * context * size, [&](int64_t part) {
        const int64_t range = part % ranges, s = part / ranges % num_seqs, kv = part / ranges / num_seqs;
        const Head<N> keys = head(*cache, 0, kv);
        const N* queries = q + s * q_stride + kv * group * size;
        N* rows = scores + (kv * num_seqs + s) * group * context;
        const int64_t first = range * BLOCKS * per_block, stop = std::min(first + BLOCKS * per_block, context);
        const int64_t seen = std::min(stop, lens[s]);
        for (int64_t start = first; start < seen; start += per_block) {
            const N* key = keys.blocks + tables[s * table_size + start / per_block] * keys.block_numbers;
            for (int64_t c = start; c < std::min(start + per_block, seen); c++, key += size) {
                ask_for(key + AHEAD, size);
                int64_t g = 0;
                for (; g + 3 <= group; g += 3)
                    score<3>(queries + g * size, key, size, scale, context, rows + g * context + c);
                for (; g < group; g++) score<1>(queries + g * size, key, size, scale, context, rows + g * context + c);
            }
        }
        for (int64_t g = 0; g < group; g++)
            for (int64_t c = std::max(first, seen); c < stop; c++)
                rows[g * context + c] = N(-std::numeric_limits<float>::infinity());
    });
}

// Softmax of each of the rows [rows, C].
template <class N> void mi_attn_pattern(const N* scores, int64_t rows, int64_t context, N* pattern) {
    const int64_t together = std::clamp<int64_t>(rows / 64, 1, 16);
    share((rows + together - 1) / together, rows * context * 8, [&](int64_t part) {
        float* powers = memory_of_thread(context);
        for (int64_t row = part * together; row < std::min(rows, (part + 1) * together); row++)
            softmax(scores + row * context, context, powers, pattern + row * context);
    });
}

namespace {

// COUNT heads that read the same values: sums of weights[c] * value[c] over positions start .. stop - 1, of NV vectors from
// number `first` of each value on.
template <int COUNT, int NV, class N>
void mix(const Head<N>& values, const int64_t* table, const Cache<N>& cache, const N* weights, int64_t context,
         int64_t start, int64_t stop, int64_t first, float* z) {
    V sums[COUNT][NV] = {};
    for (int64_t c = start; c < stop;) {
        const N* value = values.blocks + table[c / cache.block_size] * values.block_numbers + first;
        const int64_t end = std::min((c / cache.block_size + 1) * cache.block_size, stop);
        for (; c < end; c++, value += cache.head_dim) {
            ask_for(value + AHEAD, NV * LANES);
            for (int g = 0; g < COUNT; g++) {
                const V weight = all(weights[g * context + c]);
                for (int v = 0; v < NV; v++) sums[g][v] += load(value + v * LANES) * weight;
            }
        }
    }
    for (int g = 0; g < COUNT; g++) store_some(z + g * cache.head_dim + first, sums[g], NV * LANES);
}

// The same for one head and any number of numbers.
template <class N>
void mix_plainly(const Head<N>& values, const int64_t* table, const Cache<N>& cache, const N* weights, int64_t start,
                 int64_t stop, int64_t first, float* z) {
    std::fill(z + first, z + cache.head_dim, 0.0f);
    for (int64_t c = start; c < stop; c++) {
        const N* value = values.blocks + table[c / cache.block_size] * values.block_numbers +
                         c % cache.block_size * cache.head_dim;
        for (int64_t i = first; i < cache.head_dim; i++) z[i] += weights[c] * value[i];
    }
}

// All numbers of COUNT heads.
template <int COUNT, class N>
void mix_heads(const Head<N>& values, const int64_t* table, const Cache<N>& cache, const N* weights, int64_t context,
               int64_t start, int64_t stop, float* z) {
    int64_t first = 0;
    for (; first + 4 * LANES <= cache.head_dim; first += 4 * LANES)
        mix<COUNT, 4>(values, table, cache, weights, context, start, stop, first, z);
    for (; first + LANES <= cache.head_dim; first += LANES)
        mix<COUNT, 1>(values, table, cache, weights, context, start, stop, first, z);
    if (first == cache.head_dim) return;
    for (int g = 0; g < COUNT; g++)
        mix_plainly(values, table, cache, weights + g * context, start, stop, first, z + g * cache.head_dim);
}

}  // namespace

// z [S, H, D]: the values of each sequence mixed by pattern [K, S, G, C]. The sums of the parts are added in their order.
template <class N>
void mi_attn_mix(const Cache<N>* cache, const N* pattern, int64_t num_heads, const int64_t* tables,
                 int64_t table_size, const int64_t* lens, int64_t num_seqs, int64_t context, N* z) {
    constexpr int64_t POSITIONS = 128;
    static thread_local std::vector<float> partial;  // [ranges, S, H, D]
    const int64_t size = cache->head_dim, group = num_heads / cache->num_kv_heads, all_z = num_seqs * num_heads * size;
    const int64_t ranges = (context + POSITIONS - 1) / POSITIONS, work = num_heads * num_seqs * context * size;
    partial.resize(ranges * all_z);
    float* sums = partial.data();
    share(ranges * num_seqs * cache->num_kv_heads, work, [=](int64_t part) {
        const int64_t range = part % ranges, s = part / ranges % num_seqs, kv = part / ranges / num_seqs;
        const Head<N> values = head(*cache, 1, kv);
        const int64_t* table = tables + s * table_size;
        const N* weights = pattern + (kv * num_seqs + s) * group * context;
        const int64_t start = range * POSITIONS, stop = std::min(start + POSITIONS, lens[s]);
        float* to = sums + range * all_z + (s * num_heads + kv * group) * size;
        int64_t g = 0;
        for (; g + 3 <= group; g += 3)
            mix_heads<3>(values, table, *cache, weights + g * context, context, start, stop, to + g * size);
        for (; g < group; g++)
            mix_heads<1>(values, table, *cache, weights + g * context, context, start, stop, to + g * size);
    });
    for (int64_t i = 0; i < all_z; i++) {
        float sum = sums[i];
        for (int64_t range = 1; range < ranges; range++) sum += sums[range * all_z + i];
        z[i] = N(sum);
    }
}

const Entry ATTENTION_ENTRIES[] = {MI_ENTRY(mi_attn_scores), MI_ENTRY(mi_attn_pattern), MI_ENTRY(mi_attn_mix), Entry{}};
