// Sixteen floats at a time, in the vector types of GCC and Clang: the compiler turns them into AVX-512, AVX2 or whatever
// this processor has. Only what compilers do not find by themselves is written with the processor's own instructions.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef float V __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t VI __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t VU __attribute__((vector_size(64), aligned(4), may_alias));

constexpr int LANES = 16;

inline V load(const float* from) { return *reinterpret_cast<const V*>(from); }
inline void store(float* to, V value) { *reinterpret_cast<V*>(to) = value; }
inline V all(float value) { return value - V{}; }

inline V as_floats(VI lanes) { return __builtin_convertvector(lanes, V); }
inline V low_half(VI lanes) { return as_floats(lanes & 15); }  // of a byte in each lane

// 16 bytes as 16 whole numbers. Compilers do not find these instructions by themselves.
inline VI widen(const uint8_t* from) {
#if defined(__AVX512F__)
    return (VI)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    int32_t wide[LANES];
    for (int i = 0; i < LANES; i++) wide[i] = from[i];
    return *reinterpret_cast<const VI*>(wide);
#endif
}

inline VI widen(const int8_t* from) {
#if defined(__AVX512F__)
    return (VI)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    int32_t wide[LANES];
    for (int i = 0; i < LANES; i++) wide[i] = from[i];
    return *reinterpret_cast<const VI*>(wide);
#endif
}

inline float sum(V v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float halves[LANES];
    store(halves, v);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) halves[i] += halves[i + n];
    return halves[0];
#endif
}

inline float max(V v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#endif
    float largest = v[0];
    for (int i = 1; i < LANES; i++) largest = v[i] > largest ? v[i] : largest;
    return largest;
}

inline bool all_are(V x, float value) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(value), _CMP_NEQ_UQ) == 0;
#else
    int32_t different = 0;
    for (int i = 0; i < LANES; i++) different |= x[i] != value;
    return different == 0;
#endif
}

// e^x to 2 units in the last place; 0 below -104, NaN for NaN.
#if defined(__AVX512F__)
inline V exp(V x) {
    const __m512 log2e = _mm512_set1_ps(1.44269504088896341f);
    // of two operands these give back the second one if there is a NaN
    const __m512 held = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-105.0f), (__m512)x));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(held, log2e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const V r = (V)held - (V)n * 0.693359375f + (V)n * 2.12194440e-4f;  // ln 2 in two parts
    V p = all(1.9875691500e-4f);
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = p * r + c;
    return (V)_mm512_scalef_ps((__m512)(p * r * r + r + 1.0f), n);
}
#else
inline V exp(V x) {
    const V magic = all(12582912.0f);  // 1.5 * 2^23: adding and taking away rounds to a whole number
    V held = x < -104.0f ? all(-104.0f) : x;
    held = held > 89.0f ? all(89.0f) : held;
    V n = held * 1.44269504088896341f + magic - magic;
    V r = held - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts
    V p = all(1.9875691500e-4f);
    for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = p * r + c;
    p = p * r * r + r + 1.0f;
    VI whole = __builtin_convertvector(n == n ? n : V{}, VI);
    VI half = whole >> 1;  // in two steps: 2^-150 has no exponent of its own
    V low = (V)((half + 127) << 23), high = (V)((whole - half + 127) << 23);
    V result = p * low * high;
    return x < -104.0f ? V{} : (x != x ? x : result);
}
#endif

inline V silu(V x) { return x / (1.0f + exp(-x)); }

inline float half_to_float(const uint8_t* from) {  // two bytes of a float16
    uint16_t half;
    std::memcpy(&half, from, 2);
#if defined(__F16C__) || defined(__ARM_FP16_FORMAT_IEEE)
    _Float16 value;
    std::memcpy(&value, &half, 2);
    return value;
#else
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * std::ldexp(static_cast<float>(fraction), -24);
    uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
#endif
}
