// Products with a few rows of x: y = x W^T, one panel of W after another, each weight read once from memory.
//
// Dense panels are multiplied as they are. 4-bit panels and Q8_0 rows have two ways. Where the processor multiplies
// bytes (AVX-512 VNNI), x is written as whole numbers of 16 bits, one scale for each 32 of them, which costs a rounding
// of at most 2^-16 of the largest of the 32; their upper and lower bytes are multiplied apart and the sums are exact.
// Elsewhere the weights become floats.
#pragma once
#include <algorithm>
#include <vector>

#include "core.h"

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__) && defined(__AVX512VL__) && defined(__AVX512BW__)
#define BYTE_PRODUCTS 1
#else
#define BYTE_PRODUCTS 0
#endif

constexpr int GROUP = 32, TILE = 4;  // TILE: rows of x that share one read of a 4-bit weight
constexpr int AHEAD = 4096;  // bytes: Q8_0 rows are asked for that long before they are needed
constexpr int Q8_BLOCK = 2 + GROUP;                   // bytes: a float16 scale and the numbers

#if BYTE_PRODUCTS
constexpr float LARGEST_WHOLE = 32512.0f;  // 127 * 256: what the largest of 32 numbers becomes

// 32 numbers as whole ones of 16 bits, sixteen at a time to keep(place, whole); *scale: what one is worth, *total: their sum.
// A number that is not finite must not look like one.
template <typename Keep>
void round_group(const float* x, float* scale, float* total, const Keep& keep) {
    const V low = load(x), high = load(x + LANES);
    const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps((__m512)low), _mm512_abs_ps((__m512)high)));
    const float factor = largest > 0 ? LARGEST_WHOLE / largest : 0.0f;
    const __m512i lower = _mm512_cvtps_epi32((__m512)(low * factor));  // the nearest, of two the even one
    const __m512i upper = _mm512_cvtps_epi32((__m512)(high * factor));
    keep(0, lower);
    keep(LANES, upper);
    *scale = std::isfinite(sum(low + high) - largest) ? largest / LARGEST_WHOLE : std::nanf("");
    *total = *scale * static_cast<float>(_mm512_reduce_add_epi32(_mm512_add_epi32(lower, upper)));
}
#endif

// x [rows, in] as a product with 4-bit panels or Q8_0 rows reads it.
struct Rows {
    const float* x;
    int64_t in, groups;
    std::vector<float> sums;           // [rows, groups] of each 32 numbers
    std::vector<int8_t> upper, lower;  // [rows, in]: x = scale * (256 upper + lower)
    std::vector<float> scales;         // [rows, groups]

    Rows(const Matrix& w, const float* x, int64_t rows) : x(x), in(w.in), groups(w.in / GROUP) {
        sums.resize(rows * groups);
        if (!BYTE_PRODUCTS) {
            for (size_t g = 0; g < sums.size(); g++) sums[g] = sum(load(x + g * GROUP) + load(x + g * GROUP + LANES));
            return;
        }
        scales.resize(rows * groups);
        upper.resize(rows * in);
        lower.resize(rows * in);
        for (int64_t g = 0; g < rows * groups; g++) split(g);
    }

#if BYTE_PRODUCTS
    void split(int64_t g) {
        round_group(x + g * GROUP, &scales[g], &sums[g], [&](int64_t at, __m512i whole) {
            const __m512i above = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
            const __m512i below = _mm512_sub_epi32(whole, _mm512_slli_epi32(above, 8));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(&upper[g * GROUP + at]), _mm512_cvtepi32_epi8(above));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(&lower[g * GROUP + at]), _mm512_cvtepi32_epi8(below));
        });
    }
#else
    void split(int64_t) {}
#endif
};

// Scale and zero of the rows of a panel for one group of columns: bfloat16, the upper half of a float32.
inline void scale_and_zero(const Matrix& w, int64_t group, int64_t row, V& scale, V& zero) {
    const VU pair = *reinterpret_cast<const VU*>(w.scales + (group * w.out + row) * 2);
    scale = (V)(pair << 16);
    zero = (V)(pair & 0xffff0000u);
}

// One panel with R rows of x from row `first` on -> acc [R][NV vectors].
template <int NV, int R>
void int4_panel(const Matrix& w, int64_t panel, const Rows& rows, int64_t first, V (*acc)[MAX_VECTORS]) {
    constexpr int BYTES = NV * LANES / 2, HALF = NV / 2;  // of a column; vectors of its low halves
    const uint8_t* column = static_cast<const uint8_t*>(w.numbers) + panel * w.columns * BYTES;
    const float* x = rows.x + first * w.in;
    V sums[R][NV] = {};
    for (int64_t g = 0; g < rows.groups; g++) {
        V part[R][NV] = {};
        for (int64_t k = g * GROUP; k < (g + 1) * GROUP; k++, column += BYTES) {
            for (int h = 0; h < HALF; h++) {
                const VI both = widen(column + h * LANES);
                const V low = low_half(both), high = low_half(both >> 4);
                for (int r = 0; r < R; r++) {
                    const V factor = all(x[r * w.in + k]);
                    part[r][h] += low * factor;
                    part[r][HALF + h] += high * factor;
                }
            }
        }
        for (int v = 0; v < NV; v++) {
            V scale, zero;
            scale_and_zero(w, g, panel * w.width + v * LANES, scale, zero);
            for (int r = 0; r < R; r++) {
                const float total = rows.sums[(first + r) * rows.groups + g];
                sums[r][v] += scale * (part[r][v] - 8.0f * total) + zero * total;
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < NV; v++) acc[r][v] = sums[r][v];
}

#if BYTE_PRODUCTS
inline int32_t four_bytes(const int8_t* from) {
    int32_t bytes;
    std::memcpy(&bytes, from, 4);
    return bytes;
}

// The same for panels of 64 rows. Four columns at a time: their bytes are put side by side for each row, because the
// processor multiplies four neighbouring bytes and adds the products.
template <int R>
void int4_panel_by_bytes(const Matrix& w, int64_t panel, const Rows& rows, int64_t first, V (*acc)[MAX_VECTORS]) {
    const uint8_t* column = static_cast<const uint8_t*>(w.numbers) + panel * w.columns * 32;
    const int64_t start = first * w.in;
    alignas(64) uint8_t order[2][64];
    for (int i = 0; i < 64; i++) {
        order[0][i] = static_cast<uint8_t>(i / 4 + 32 * (i % 4));
        order[1][i] = static_cast<uint8_t>(order[0][i] + 16);
    }
    const __m512i first16 = _mm512_load_si512(order[0]), next16 = _mm512_load_si512(order[1]);
    const __m512i mask = _mm512_set1_epi8(15);
    V sums[R][4] = {};
    for (int64_t g = 0; g < rows.groups; g++) {
        __m512i upper[R][4] = {}, lower[R][4] = {};
        for (int64_t k = g * GROUP; k < (g + 1) * GROUP; k += 4, column += 128) {
            const __m512i a = _mm512_loadu_si512(column), b = _mm512_loadu_si512(column + 64);
            const __m512i c = _mm512_permutex2var_epi8(a, first16, b), d = _mm512_permutex2var_epi8(a, next16, b);
            const __m512i q[4] = {_mm512_and_si512(c, mask), _mm512_and_si512(d, mask),
                                  _mm512_andnot_si512(mask, c), _mm512_andnot_si512(mask, d)};  // the last two: 16 q
            for (int r = 0; r < R; r++) {
                const int64_t at = start + r * w.in + k;
                const __m512i high = _mm512_set1_epi32(four_bytes(&rows.upper[at]));
                const __m512i low = _mm512_set1_epi32(four_bytes(&rows.lower[at]));
                for (int v = 0; v < 4; v++) {
                    upper[r][v] = _mm512_dpbusd_epi32(upper[r][v], q[v], high);
                    lower[r][v] = _mm512_dpbusd_epi32(lower[r][v], q[v], low);
                }
            }
        }
        for (int v = 0; v < 4; v++) {
            V scale, zero;
            scale_and_zero(w, g, panel * 64 + v * LANES, scale, zero);
            for (int r = 0; r < R; r++) {
                const int64_t at = (first + r) * rows.groups + g;
                const __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(upper[r][v], 8), lower[r][v]);
                const float factor = v < 2 ? rows.scales[at] : rows.scales[at] / 16;
                sums[r][v] += scale * ((V)_mm512_cvtepi32_ps(whole) * factor) + (zero - 8.0f * scale) * rows.sums[at];
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < 4; v++) acc[r][v] = sums[r][v];
}

// One row of a Q8_0 matrix with one row of x. The bytes of the processor's product have no sign on one side: 128 is added
// to each number and taken away again in what the sums begin with.
inline float q8_row(const uint8_t* block, const Rows& rows, int64_t row) {
    const __m256i flip = _mm256_set1_epi8(-128), none = _mm256_setzero_si256();
    const int8_t *x_upper = &rows.upper[row * rows.in], *x_lower = &rows.lower[row * rows.in];
    __m256 sums = {};
    for (int64_t g = 0; g < rows.groups; g++, block += Q8_BLOCK, x_upper += GROUP, x_lower += GROUP) {
        __builtin_prefetch(block + AHEAD);
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x_upper));
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x_lower));
        const __m256i q = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 2)), flip);
        const __m256i upper = _mm256_sub_epi32(_mm256_dpbusd_epi32(none, q, high), _mm256_dpbusd_epi32(none, flip, high));
        const __m256i lower = _mm256_sub_epi32(_mm256_dpbusd_epi32(none, q, low), _mm256_dpbusd_epi32(none, flip, low));
        const __m256i whole = _mm256_add_epi32(_mm256_slli_epi32(upper, 8), lower);
        const float scale = half_to_float(block) * rows.scales[row * rows.groups + g];
        sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(scale), sums);
    }
    return sum((V)_mm512_zextps256_ps512(sums));
}
#else
// One row of a Q8_0 matrix with one row of x.
inline float q8_row(const uint8_t* block, const Rows& rows, int64_t row) {
    V sums = {};
    const float* x = rows.x + row * rows.in;
    for (int64_t g = 0; g < rows.groups; g++, block += Q8_BLOCK, x += GROUP) {
        __builtin_prefetch(block + AHEAD);
        const int8_t* q = reinterpret_cast<const int8_t*>(block + 2);
        const V part = as_floats(widen(q)) * load(x) + as_floats(widen(q + LANES)) * load(x + LANES);
        sums += part * half_to_float(block);
    }
    return sum(sums);
}
#endif

template <int NV, int R>
void int4_rows(const Matrix& w, int64_t number, const Rows& rows, int64_t first, V (*acc)[MAX_VECTORS]) {
#if BYTE_PRODUCTS
    if constexpr (NV == 4 && R > 2) {  // more sums than there are registers; the panel stays in the nearest cache
        int4_panel_by_bytes<2>(w, number, rows, first, acc);
        return int4_panel_by_bytes<R - 2>(w, number, rows, first + 2, acc + 2);
    }
    if constexpr (NV == 4) return int4_panel_by_bytes<R>(w, number, rows, first, acc);
#endif
    int4_panel<NV, R>(w, number, rows, first, acc);
}

template <int NV>
void int4_tile(const Matrix& w, int64_t number, const Rows& rows, int64_t first, int count, V (*acc)[MAX_VECTORS]) {
    switch (count) {
        case 1: return int4_rows<NV, 1>(w, number, rows, first, acc);
        case 2: return int4_rows<NV, 2>(w, number, rows, first, acc);
        case 3: return int4_rows<NV, 3>(w, number, rows, first, acc);
        default: return int4_rows<NV, TILE>(w, number, rows, first, acc);
    }
}

// Part `number` of y [rows, out]: `width` of its columns, or as many as there are.
inline void product(const Matrix& w, int64_t number, const Rows& x, int64_t rows, float* y) {
    const int64_t first = number * w.width, count = std::min<int64_t>(w.width, w.out - first);
    if (w.layout == Q8_ROWS) {
        const int64_t row_bytes = x.groups * Q8_BLOCK;
        const uint8_t* stored = static_cast<const uint8_t*>(w.numbers) + first * row_bytes;
        for (int64_t i = 0; i < count; i++, stored += row_bytes)
            for (int64_t r = 0; r < rows; r++) y[r * w.out + first + i] = q8_row(stored, x, r);
        return;
    }
    for (int64_t r = 0; r < rows; r += TILE) {
        V acc[TILE][MAX_VECTORS];
        const int now = static_cast<int>(std::min<int64_t>(TILE, rows - r));
        if (w.width == 2 * LANES) int4_tile<2>(w, number, x, r, now, acc);
        else int4_tile<4>(w, number, x, r, now, acc);
        for (int i = 0; i < now; i++) store_some(y + (r + i) * w.out + first, acc[i], count);
    }
}

// The layout of a matrix whose numbers are multiplied as they are stored.
inline bool is_dense(const Matrix& w) { return w.layout == FLOAT32_PANELS || w.layout == BFLOAT16_PANELS; }

// `count` rows of x [.., in] with panel `number` of a dense matrix.
template <class N> void dense_tile(const Matrix& w, int64_t number, const N* x, int count, V (*acc)[MAX_VECTORS]) {
    const N* panel = static_cast<const N*>(w.numbers) + number * w.columns * w.width;
    switch (w.width / LANES) {
        case 1: return multiply<1>(count, x, w.in, panel, w.in, acc);
        case 2: return multiply<2>(count, x, w.in, panel, w.in, acc);
        case 3: return multiply<3>(count, x, w.in, panel, w.in, acc);
        default: return multiply<4>(count, x, w.in, panel, w.in, acc);
    }
}
