// The work on lists and tiles, compiled once for each path: PATH is its name, WIDTH the bytes of its vectors.
//
// No inline function of a library is used here: the linker keeps one copy of each, and it might be one that this
// processor cannot run.
#include "attention.h"
#include "firing.h"
#include "tiles.h"

namespace spikelm_event {
namespace {

constexpr int PARTS = OUTPUTS / WIDTH;  // vectors of a line
constexpr int AHEAD = 256;  // values that are fetched before they are looked at
constexpr int FETCHING = 16;  // rows from which on the next lines are fetched beforehand
constexpr int BATCH = 32;  // groups until sums of 16 bits are carried on: 128 weights of at most 255

// Fills a list of `n` entries up to whole groups; how many groups begin at `first`.
inline uint16_t fill(uint16_t* list, int& n, int first, int zero) {
    while ((n - first) % GROUP) list[n++] = static_cast<uint16_t>(zero * SCALE);
    return static_cast<uint16_t>((n - first) / GROUP);
}

// append(x, width, range, negative, positive list, its length, negative list, its length): one magnitude's events.
#if defined(__AVX512VBMI2__)
inline int put(uint16_t* list, __mmask32 mask, __m512i places) {
    _mm512_storeu_si512(list, _mm512_maskz_compress_epi16(mask, places));
    return __builtin_popcount(mask);
}

inline void append(const float* x, int width, Range range, bool negative, uint16_t* positives, int& p, uint16_t* negatives, int& m) {
    const __m512 low = _mm512_set1_ps(range.low), high = _mm512_set1_ps(range.high), sign = _mm512_set1_ps(-0.0f);
    const __m512i step = _mm512_set1_epi16(32 * SCALE);
    alignas(64) uint16_t first[32];
    for (int i = 0; i < 32; ++i) first[i] = static_cast<uint16_t>(i * SCALE);
    __m512i places = _mm512_load_si512(first);
    for (int k = 0; k < width; k += 32, places = _mm512_add_epi16(places, step)) {
        __builtin_prefetch(x + k + AHEAD), __builtin_prefetch(x + k + AHEAD + 16);
        const uint32_t here = width - k < 32 ? (1u << (width - k)) - 1 : ~0u;
        const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(here), x + k);
        const __m512 b = _mm512_maskz_loadu_ps(static_cast<__mmask16>(here >> 16), x + k + 16);
        p += put(positives + p, within(a, b, low, high) & here, places);
        if (negative)
            m += put(negatives + m, within(_mm512_xor_ps(a, sign), _mm512_xor_ps(b, sign), low, high) & here, places);
    }
}
#else
inline void put(uint16_t* list, int& n, uint64_t mask, int k) {
    for (; mask; mask &= mask - 1) list[n++] = static_cast<uint16_t>((k + __builtin_ctzll(mask)) * SCALE);
}

inline void append(const float* x, int width, Range range, bool negative, uint16_t* positives, int& p, uint16_t* negatives, int& m) {
    for (int k = 0; k < width; k += 64) {
        uint64_t above = 0, below = 0;
        find(x + k, width - k < 64 ? width - k : 64, range, above, below);
        put(positives, p, above, k);
        if (negative) put(negatives, m, below, k);
    }
}
#endif

void list(const float* x, int width, int zero, const Levels& levels, Events events) {
    int p = 0, m = 0, net = 0;
    for (int v = levels.count; v > 0; --v) {
        const int first_p = p, first_m = m;
        append(x, width, Range(levels, v), levels.negative, events.positive, p, events.negative, m);
        net += v * ((p - first_p) - (m - first_m));
        Counts& counts = events.counts[levels.count - v];
        counts.positive = fill(events.positive, p, first_p, zero);
        counts.negative = fill(events.negative, m, first_m, zero);
    }
    *events.net = net;
}

int64_t count(const float* x, int64_t size, const Levels& levels) {
    int64_t found = 0;
    const float bound = levels.bound[0];
    for (int64_t start = 0; start < size; start += 4096) {
        const int64_t end = start + 4096 < size ? start + 4096 : size;
        int32_t part = 0;
        if (levels.negative)
            for (int64_t i = start; i < end; ++i) part += (x[i] > bound) | (x[i] < -bound);
        else
            for (int64_t i = start; i < end; ++i) part += x[i] > bound;
        found += part;
    }
    return found;
}

void levels_of(const float* x, int64_t size, const Levels& levels, int8_t* n) {
    const float bound = levels.bound[0];
    if (levels.negative)
        for (int64_t i = 0; i < size; ++i) n[i] = static_cast<int8_t>((x[i] > bound) - (x[i] < -bound));
    else
        for (int64_t i = 0; i < size; ++i) n[i] = static_cast<int8_t>(x[i] > bound);
}

struct Sums {
    Ints of[PARTS][4];  // outputs 16 b + i of lane i
};

// The lower 16 bits of each number, with their sign.
inline Ints first_half(Ints x) {
    typedef uint32_t Bits __attribute__((vector_size(WIDTH)));
    return reinterpret_cast<Ints>(reinterpret_cast<Bits>(x) << 16) >> 16;
}

// Weights come in pairs of bytes: the sum of a pair as one number of 16 bits and that of its upper byte say both.
template <bool plus>
inline void add(const int8_t* lines, const uint16_t* list, int groups, Wraps (&both)[PARTS], Words (&upper)[PARTS]) {
    for (int g = 0; g < groups; ++g, list += GROUP)
        for (int i = 0; i < PARTS; ++i) {
            Words w[GROUP];
            for (int e = 0; e < GROUP; ++e)
                w[e] = *reinterpret_cast<const Words*>(lines + static_cast<int64_t>(list[e]) * (OUTPUTS / SCALE) + i * WIDTH);
            const Wraps sum = (reinterpret_cast<Wraps>(w[0]) + reinterpret_cast<Wraps>(w[1])) +
                              (reinterpret_cast<Wraps>(w[2]) + reinterpret_cast<Wraps>(w[3]));
            const Words high = ((w[0] >> 8) + (w[1] >> 8)) + ((w[2] >> 8) + (w[3] >> 8));
            both[i] = plus ? both[i] + sum : both[i] - sum;
            upper[i] = plus ? upper[i] + high : upper[i] - high;
        }
}

inline void add_events(const int8_t* lines, const uint16_t* positive, const uint16_t* negative, Counts counts, Sums& sums) {
    int p = counts.positive, m = counts.negative;
    while (p || m) {
        const int now_p = p < BATCH ? p : BATCH, now_m = m < BATCH ? m : BATCH;
        Wraps both[PARTS] = {};
        Words upper[PARTS] = {};
        add<true>(lines, positive, now_p, both, upper);
        add<false>(lines, negative, now_m, both, upper);
        positive += now_p * GROUP, negative += now_m * GROUP, p -= now_p, m -= now_m;
        for (int i = 0; i < PARTS; ++i) {
            const Wraps lower = both[i] - (reinterpret_cast<Wraps>(upper[i]) << 8);
            const Ints low = reinterpret_cast<Ints>(lower), high = reinterpret_cast<Ints>(upper[i]);
            sums.of[i][0] += first_half(low);
            sums.of[i][1] += first_half(high);
            sums.of[i][2] += low >> 16;
            sums.of[i][3] += high >> 16;
        }
    }
}

// `sums` are 64 numbers in order.
inline void finish_row(const int32_t* sums, int row, const Finish& f) {
    const float step = f.step ? f.step[row] : 1.0f;
    float* out = f.out + row * f.stride;
    const float* residual = f.residual ? f.residual + row * f.stride : nullptr;
    int j = 0;
    for (; j + LANES <= f.outputs; j += LANES) {
        Floats y = __builtin_convertvector(*reinterpret_cast<const AnyInts*>(sums + j), Floats);
        y *= *reinterpret_cast<const AnyFloats*>(f.scale + j);
        if (f.step) y *= step;
        y += *reinterpret_cast<const AnyFloats*>(f.bias + j);
        if (residual) y += *reinterpret_cast<const AnyFloats*>(residual + j);
        *reinterpret_cast<AnyFloats*>(out + j) = y;
    }
    for (; j < f.outputs; ++j) {
        float y = static_cast<float>(sums[j]) * f.scale[j];
        if (f.step) y *= step;
        y += f.bias[j];
        out[j] = residual ? y + residual[j] : y;
    }
}

void finish(const int32_t* sums, int64_t stride, int rows, const Finish& f) {
    for (int row = 0; row < rows; ++row) finish_row(sums + row * stride, row, f);
}

void tile(const int8_t* lines, const int8_t* next, int64_t bytes, const Events* events, int levels, int rows, bool first,
          const Finish* f, int32_t* sums) {
    const bool fetches = next && rows >= FETCHING;  // few rows read few of the lines
    const int64_t share = fetches ? (bytes / OUTPUTS + rows - 1) / rows * OUTPUTS : 0;  // of the next lines, by each row
    for (int row = 0; row < rows; ++row) {
        for (int64_t at = row * share; at < (row + 1) * share && at < bytes; at += OUTPUTS)
            __builtin_prefetch(next + at, 0, 2);
        const Events& e = events[row];
        const uint16_t *positive = e.positive, *negative = e.negative;
        Sums total = {};
        if (levels == 1) {
            add_events(lines, positive, negative, e.counts[0], total);
        } else {
            Sums sum = {};
            for (int v = 0; v < levels; ++v) {
                add_events(lines, positive, negative, e.counts[v], sum);
                positive += e.counts[v].positive * GROUP, negative += e.counts[v].negative * GROUP;
                for (int i = 0; i < PARTS; ++i)
                    for (int b = 0; b < 4; ++b) total.of[i][b] += sum.of[i][b];
            }
        }
        const int32_t raised = 128 * *e.net;
        int32_t* kept = sums + row * OUTPUTS;
        for (int i = 0; i < PARTS; ++i)
            for (int b = 0; b < 4; ++b) {
                Ints value = b % 2 ? total.of[i][b] : total.of[i][b] - raised;
                Ints* place = reinterpret_cast<Ints*>(kept + 16 * b + LANES * i);
                *place = first ? value : value + *place;
            }
        if (f) finish_row(kept, row, *f);
    }
}

}  // namespace

#define NAME_OF(path) #path
#define NAME(path) NAME_OF(path)
const Path PATH = {NAME(PATH), list, count, levels_of, tile, finish, attend};

}  // namespace spikelm_event
