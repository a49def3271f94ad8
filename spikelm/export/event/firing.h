// The vectors of a path, and which values fire: included by tiles.cpp, which is compiled once for each path.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "tiles.h"

namespace spikelm_event {
namespace {

typedef int16_t Words __attribute__((vector_size(WIDTH), may_alias));
typedef uint16_t Wraps __attribute__((vector_size(WIDTH), may_alias));  // sums that are meant modulo 2^16
typedef int32_t Ints __attribute__((vector_size(WIDTH), may_alias));
typedef int32_t AnyInts __attribute__((vector_size(WIDTH), may_alias, aligned(4)));
typedef float Floats __attribute__((vector_size(WIDTH), may_alias));
typedef float AnyFloats __attribute__((vector_size(WIDTH), may_alias, aligned(4)));

constexpr int LANES = WIDTH / 4;

// Where x lies in (low, high], and where -x does.
struct Range {
    float low, high;

    Range(const Levels& levels, int v) : low(levels.bound[v - 1]), high(v < levels.count ? levels.bound[v] : __builtin_inff()) {}
};

#if defined(__AVX512VBMI2__)
inline __mmask32 within(__m512 a, __m512 b, __m512 low, __m512 high) {
    const __mmask16 first = _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(a, low, _CMP_GT_OQ), a, high, _CMP_LE_OQ);
    const __mmask16 second = _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(b, low, _CMP_GT_OQ), b, high, _CMP_LE_OQ);
    return static_cast<__mmask32>(first) | static_cast<__mmask32>(second) << 16;
}
#endif

// Bits of the first `size` of x, at most 64.
inline void find(const float* x, int size, Range range, uint64_t& above, uint64_t& below) {
    int i = 0;
#if defined(__AVX512VBMI2__)
    const __m512 low = _mm512_set1_ps(range.low), high = _mm512_set1_ps(range.high), sign = _mm512_set1_ps(-0.0f);
    for (; i + 32 <= size; i += 32) {
        const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
        above |= static_cast<uint64_t>(within(a, b, low, high)) << i;
        below |= static_cast<uint64_t>(within(_mm512_xor_ps(a, sign), _mm512_xor_ps(b, sign), low, high)) << i;
    }
#elif defined(__AVX2__)
    const __m256 low = _mm256_set1_ps(range.low), high = _mm256_set1_ps(range.high), sign = _mm256_set1_ps(-0.0f);
    for (; i + 8 <= size; i += 8) {
        const __m256 value = _mm256_loadu_ps(x + i), other = _mm256_xor_ps(value, sign);
        const __m256 up = _mm256_and_ps(_mm256_cmp_ps(value, low, _CMP_GT_OQ), _mm256_cmp_ps(value, high, _CMP_LE_OQ));
        const __m256 down = _mm256_and_ps(_mm256_cmp_ps(other, low, _CMP_GT_OQ), _mm256_cmp_ps(other, high, _CMP_LE_OQ));
        above |= static_cast<uint64_t>(_mm256_movemask_ps(up)) << i;
        below |= static_cast<uint64_t>(_mm256_movemask_ps(down)) << i;
    }
#endif
    for (; i < size; ++i) {
        above |= static_cast<uint64_t>((x[i] > range.low) & (x[i] <= range.high)) << i;
        below |= static_cast<uint64_t>((-x[i] > range.low) & (-x[i] <= range.high)) << i;
    }
}

}  // namespace
}  // namespace spikelm_event
