// 4-bit panels with many rows of x: a prefill, or a few sequences together.
//
// A panel is unpacked once, to 16-bit numbers in the nearest caches, and multiplied with rows of x in whole numbers of 16
// bits (products.h: the same rounding of x, at most 2^-16 of the largest of 32 numbers; the sums are exact). Where the
// processor has no such product (AVX-512 VNNI), there is nothing here, and torch keeps the prefill.
#pragma once
#include "products.h"

#if BYTE_PRODUCTS

constexpr int PANEL = 64, PARTS = PANEL / LANES;  // rows of a panel; its vectors
static_assert(PARTS == MAX_VECTORS);

inline bool takes_many(const Matrix& w) { return w.layout == INT4_PANELS && w.width == PANEL; }

// x [rows, in] as whole numbers: x = scale * whole, one scale for each 32 of a row.
struct WholeRows {
    int64_t in = 0, groups = 0;
    std::vector<int16_t> whole;       // [rows, in]
    std::vector<float> scales, sums;  // [rows, groups]

    void resize(int64_t columns, int64_t rows) {
        in = columns;
        groups = in / GROUP;
        whole.resize(std::max<size_t>(whole.size(), rows * in));
        scales.resize(std::max<size_t>(scales.size(), rows * groups));
        sums.resize(scales.size());
    }

    void round(const float* x, int64_t row) {
        for (int64_t g = row * groups; g < (row + 1) * groups; g++) {
            round_group(x + g * GROUP, &scales[g], &sums[g], [&](int64_t at, __m512i rounded) {
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(&whole[g * GROUP + at]), _mm512_cvtepi32_epi16(rounded));
            });
        }
    }
};

// sum += a * b: two products of 16-bit numbers in each lane. GCC 12 copies `sum` to memory and back around its intrinsic.
inline void add_products(__m512i& sum, __m512i a, __m512i b) { asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); }

// 32 columns of a panel with R rows of x -> whole [R][64].
template <int R>
inline void group_products(const int16_t* column, const int16_t* x, int64_t stride, __m512i (*whole)[PARTS]) {
    __m512i sums[R][PARTS] = {};
    for (int64_t k = 0; k < GROUP; k += 2, column += 2 * PANEL) {
        __m512i q[PARTS];
        for (int v = 0; v < PARTS; v++) q[v] = _mm512_loadu_si512(column + v * 32);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            int32_t two;
            std::memcpy(&two, x + r * stride + k, sizeof two);
            const __m512i its = _mm512_set1_epi32(two);
            for (int v = 0; v < PARTS; v++) add_products(sums[r][v], q[v], its);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < PARTS; v++) whole[r][v] = sums[r][v];
}

// One unpacked panel. It lives in memory of its thread, which is used again: new memory would have to be mapped.
struct Unpacked {
    int64_t groups;
    int16_t* pairs;  // [in / 2, 64, 2]: two columns side by side, as the processor's product takes them
    float* scales;   // [groups, 2, 64]: scale and zero - 8 scale

    Unpacked(const Matrix& w, int64_t panel, std::vector<float>& memory) : groups(w.in / GROUP) {
        memory.resize(std::max<size_t>(memory.size(), w.in * PANEL / 2 + groups * 2 * PANEL));
        scales = memory.data();
        pairs = reinterpret_cast<int16_t*>(scales + groups * 2 * PANEL);
        alignas(64) uint8_t order[2][64] = {};
        for (int row = 0; row < 32; row++)  // byte `row` of column k, and of column k + 1, 32 bytes behind it
            for (int column = 0; column < 2; column++) order[row / 16][row % 16 * 4 + column * 2] = row + 32 * column;
        const __m512i first16 = _mm512_load_si512(order[0]), next16 = _mm512_load_si512(order[1]);
        const __m512i mask = _mm512_set1_epi16(15);
        const uint8_t* from = static_cast<const uint8_t*>(w.numbers) + panel * w.columns * PANEL / 2;
        int16_t* to = pairs;
        for (int64_t k = 0; k < w.in; k += 2, from += 64, to += 2 * PANEL) {
            const __m512i both = _mm512_loadu_si512(from);
            const __m512i a = _mm512_maskz_permutexvar_epi8(0x5555555555555555, first16, both);
            const __m512i b = _mm512_maskz_permutexvar_epi8(0x5555555555555555, next16, both);
            _mm512_storeu_si512(to, _mm512_and_si512(a, mask));
            _mm512_storeu_si512(to + 32, _mm512_and_si512(b, mask));
            _mm512_storeu_si512(to + 64, _mm512_srli_epi16(a, 4));
            _mm512_storeu_si512(to + 96, _mm512_srli_epi16(b, 4));
        }
        for (int64_t g = 0; g < groups; g++) {
            for (int v = 0; v < PARTS; v++) {
                V scale, zero;
                scale_and_zero(w, g, panel * PANEL + v * LANES, scale, zero);
                store(scales + g * 2 * PANEL + v * LANES, scale);
                store(scales + (g * 2 + 1) * PANEL + v * LANES, zero - 8.0f * scale);
            }
        }
    }

    // Rows first .. first + R - 1 of x with this panel.
    template <int R> void multiply(const WholeRows& x, int64_t first, V (*out)[PARTS]) const {
        std::memset(out, 0, R * sizeof out[0]);
        const int16_t* column = pairs;
        const int16_t* row = x.whole.data() + first * x.in;
        for (int64_t g = 0; g < groups; g++, row += GROUP) {
            __m512i whole[R][PARTS];
            group_products<R>(column, row, x.in, whole);
            column += GROUP * PANEL;
            const float* scale = scales + g * 2 * PANEL;
            for (int r = 0; r < R; r++) {
                const float factor = x.scales[(first + r) * groups + g], total = x.sums[(first + r) * groups + g];
                for (int v = 0; v < PARTS; v++) {
                    const V product = (V)_mm512_cvtepi32_ps(whole[r][v]) * factor;
                    const V sum = out[r][v] + load(scale + v * LANES) * product;
                    out[r][v] = sum + load(scale + PANEL + v * LANES) * total;
                }
            }
        }
    }

    void multiply(const WholeRows& x, int64_t first, int count, V (*out)[PARTS]) const {
        switch (count) {
            case 1: return multiply<1>(x, first, out);
            case 2: return multiply<2>(x, first, out);
            case 3: return multiply<3>(x, first, out);
            case 4: return multiply<4>(x, first, out);
            case 5: return multiply<5>(x, first, out);
            default: return multiply<MOST_TILE>(x, first, out);
        }
    }
};

inline std::vector<float>& panel_memory(int which) {
    static thread_local std::vector<float> memory[2];
    return memory[which];
}

#endif
