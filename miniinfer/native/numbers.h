// The numbers of a field: float, or Bfloat16, which is the upper half of a float. Arithmetic is done in float32; a
// bfloat16 is widened when it is read, and rounded once when it is written.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "vectors.h"

struct Bfloat16 {
    uint16_t bits;

    Bfloat16() = default;
    explicit Bfloat16(float value) {  // to the nearest, of two the even one
        uint32_t wide;
        std::memcpy(&wide, &value, 4);
        bits = value != value ? 0x7fc0 : static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    }
    operator float() const {
        const uint32_t wide = static_cast<uint32_t>(bits) << 16;
        float value;
        std::memcpy(&value, &wide, 4);
        return value;
    }
};

typedef uint16_t VH __attribute__((vector_size(32), aligned(2), may_alias));

inline VU widen(const Bfloat16* from) {
#if defined(__AVX512F__)
    return (VU)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#else
    return __builtin_convertvector(*reinterpret_cast<const VH*>(from), VU);
#endif
}

inline V load(const Bfloat16* from) { return (V)(widen(from) << 16); }

inline void store(Bfloat16* to, V value) {
#if defined(__AVX512BF16__)
    const auto rounded = _mm512_cvtneps_pbh((__m512)value);
    std::memcpy(to, &rounded, sizeof rounded);
#else
    const VU wide = (VU)value;
    const VU rounded = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
    *reinterpret_cast<VH*>(to) = __builtin_convertvector((VU)(value != value ? (VI)(VU{} + 0x7fc0) : (VI)rounded), VH);
#endif
}

// The first `count` numbers of some vectors.
template <class N, int NV> void store_some(N* to, const V (&from)[NV], int64_t count) {
    if (count == NV * LANES) {
        for (int v = 0; v < NV; v++) store(to + v * LANES, from[v]);
    } else {
        N kept[NV * LANES];
        for (int v = 0; v < NV; v++) store(kept + v * LANES, from[v]);
        std::memcpy(to, kept, count * sizeof(N));
    }
}

// How many of the numbers stand before those at the end that all equal `value`, in steps of 16.
template <class N> int64_t length_but_for(const N* x, int64_t size, float value) {
    int64_t n = size;
    while (n > 0 && n % LANES != 0 && x[n - 1] == value) n--;
    while (n >= LANES && n % LANES == 0) {
        if (!all_are(load(x + n - LANES), value)) break;
        n -= LANES;
    }
    return n;
}

template <class N> float dot(const N* a, const N* b, int64_t size) {
    V sums{};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) sums += load(a + i) * load(b + i);
    float result = sum(sums);
    for (; i < size; i++) result += a[i] * b[i];
    return result;
}

// Sixteen pairs of bfloat16, two neighbours in each lane: sum += a.first * b.first + a.second * b.second.
#if defined(__AVX512BF16__)
typedef __m512 Sum;  // of its own type: a V is one that may lie anywhere, and GCC 12 would keep it in memory
inline void add_pairs(Sum& sum, VU a, VU b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"((__m512i)a), "v"((__m512i)b));
}
#else
typedef V Sum;
inline void add_pairs(Sum& sum, VU a, VU b) {
    sum += (V)(a << 16) * (V)(b << 16) + (V)(a & 0xffff0000u) * (V)(b & 0xffff0000u);
}
#endif

inline VU pair_in_all_lanes(const Bfloat16* from) {
    uint32_t two;
    std::memcpy(&two, from, sizeof two);
    return two - VU{};
}

// One panel of a matrix with R rows of x: acc [R][NV vectors] = sum over i < count of x[r][i] times column i.
//
// Of float32, a panel has for each i the numbers of its NV * 16 rows. Of bfloat16 two columns lie side by side, as the
// processor's product takes them: for each two i, pairs of numbers of its rows.
constexpr int MAX_VECTORS = 4, MOST_TILE = 6;  // 24 sums: there are 32 registers

// The sums stay in registers only if these loops are gone before the compiler looks for such: hence the pragmas.
template <int R, int NV>
void multiply(const float* x, int64_t stride, const float* panel, int64_t count, V (*acc)[MAX_VECTORS]) {
    V sums[R][NV] = {};
    for (int64_t i = 0; i < count; i++, panel += NV * LANES) {
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const V factor = all(x[r * stride + i]);
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) sums[r][v] += load(panel + v * LANES) * factor;
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) acc[r][v] = sums[r][v];
}

template <int R, int NV>
void multiply(const Bfloat16* x, int64_t stride, const Bfloat16* panel, int64_t count, V (*acc)[MAX_VECTORS]) {
    Sum sums[R][NV] = {};
    const VU* pairs = reinterpret_cast<const VU*>(panel);
    for (int64_t i = 0; i + 1 < count; i += 2, pairs += NV) {
        VU columns[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) columns[v] = pairs[v];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const VU factors = pair_in_all_lanes(x + r * stride + i);
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) add_pairs(sums[r][v], columns[v], factors);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) acc[r][v] = (V)sums[r][v];
    if (count % 2)  // the last column stands alone in its pairs
        for (int r = 0; r < R; r++)
            for (int v = 0; v < NV; v++) acc[r][v] += (V)(pairs[v] << 16) * all(x[r * stride + count - 1]);
}

template <int NV, class N>
void multiply(int rows, const N* x, int64_t stride, const N* panel, int64_t count, V (*acc)[MAX_VECTORS]) {
    switch (rows) {
        case 1: return multiply<1, NV>(x, stride, panel, count, acc);
        case 2: return multiply<2, NV>(x, stride, panel, count, acc);
        case 3: return multiply<3, NV>(x, stride, panel, count, acc);
        case 4: return multiply<4, NV>(x, stride, panel, count, acc);
        case 5: return multiply<5, NV>(x, stride, panel, count, acc);
        default: return multiply<MOST_TILE, NV>(x, stride, panel, count, acc);
    }
}

// Calls work(first, count) for tiles of rows that are as alike as can be.
template <class Work> void tiles(int64_t first, int64_t stop, const Work& work) {
    const int64_t rows = stop - first, number = (rows + MOST_TILE - 1) / MOST_TILE;
    for (int64_t i = 0; i < number; i++) {
        const int64_t count = rows / number + (i < rows % number);
        work(first, static_cast<int>(count));
        first += count;
    }
}

// Memory of this thread, used again by the next part: new memory would have to be mapped each time.
inline float* memory_of_thread(int64_t numbers) {
    static thread_local std::vector<float> memory;
    if (static_cast<int64_t>(memory.size()) < numbers) memory.resize(numbers);
    return memory.data();
}
