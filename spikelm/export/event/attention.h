// Attention whose keys and values are spikes: every score and every output is a sum of what they pick, in an order that
// does not depend on the path, and no product is rounded on the way. Included by tiles.cpp, once for each path.
//
// 64 queries are computed at once, each in a lane of its own, so that a spike of a key adds one line of queries to a line
// of scores, a spike of a value one line of probabilities to a line of outputs, and the softmax needs no sum across lanes.
#pragma once

#include "firing.h"

namespace spikelm_event {
namespace {

constexpr int PIECES = QUERIES / LANES;  // vectors of a line

// e^x for x <= 0, to two units in the last place: 2^k times a polynomial of the rest (that of Cephes).
inline Floats exponential(Floats x) {
    const Floats least = Floats{} - 87.0f;
    x = x < least ? least : x;
    const float whole = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    const Floats k = (x * 1.44269504f + whole) - whole;
    const Floats r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    Floats y = Floats{} + 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = (y * (r * r) + r) + 1.0f;
    const Ints power = (__builtin_convertvector(k, Ints) + 127) << 23;
    return y * reinterpret_cast<Floats>(power);
}

struct Spikes {
    uint64_t positive, negative;
};

inline void find_all(const float* x, const Attention& a, float bound, Spikes* spikes) {
    const Levels levels{1, a.negative, {bound}};
    const Range range(levels, 1);
    for (int row = 0; row < a.rows; ++row, x += a.stride)
        for (int k = 0; k < a.width; k += 64, ++spikes) {
            *spikes = {0, 0};
            find(x + k, a.width - k < 64 ? a.width - k : 64, range, spikes->positive, spikes->negative);
            if (!a.negative) spikes->negative = 0;
        }
}

// The line of the lowest bit, which is taken away.
inline float* next(float* lines, uint64_t& bits) {
    float* line = lines + static_cast<int64_t>(__builtin_ctzll(bits)) * QUERIES;
    bits &= bits - 1;
    return line;
}

// Scores of one key: the lines of queries that its spikes pick.
inline void score(float* turned, const Spikes* spikes, int words, Floats (&sum)[PIECES]) {
    for (int w = 0; w < words; ++w, turned += 64 * QUERIES) {
        for (uint64_t bits = spikes[w].positive; bits;) {
            const Floats* line = reinterpret_cast<const Floats*>(next(turned, bits));
            for (int i = 0; i < PIECES; ++i) sum[i] += line[i];
        }
        for (uint64_t bits = spikes[w].negative; bits;) {
            const Floats* line = reinterpret_cast<const Floats*>(next(turned, bits));
            for (int i = 0; i < PIECES; ++i) sum[i] -= line[i];
        }
    }
}

// One key's probabilities, to and from the lines of outputs that its value's spikes pick.
inline void spread(float* sums, const Spikes* spikes, int words, const Floats* p) {
    Floats share[PIECES];
    for (int i = 0; i < PIECES; ++i) share[i] = p[i];
    for (int w = 0; w < words; ++w, sums += 64 * QUERIES) {
        for (uint64_t bits = spikes[w].positive; bits;) {
            Floats* line = reinterpret_cast<Floats*>(next(sums, bits));
            for (int i = 0; i < PIECES; ++i) line[i] += share[i];
        }
        for (uint64_t bits = spikes[w].negative; bits;) {
            Floats* line = reinterpret_cast<Floats*>(next(sums, bits));
            for (int i = 0; i < PIECES; ++i) line[i] -= share[i];
        }
    }
}

void attend(const Attention& a) {
    const int words = (a.width + 63) / 64;
    float *turned = a.room, *scores = turned + static_cast<int64_t>(a.width) * QUERIES;
    float* sums = scores + static_cast<int64_t>(a.rows) * QUERIES;
    Spikes* keys = reinterpret_cast<Spikes*>(sums + static_cast<int64_t>(a.width) * QUERIES);
    Spikes* values = keys + static_cast<int64_t>(a.rows) * words;
    find_all(a.key, a, a.key_bound, keys);
    find_all(a.value, a, a.value_bound, values);
    for (int first = 0; first < a.rows; first += QUERIES) {
        const int count = a.rows - first < QUERIES ? a.rows - first : QUERIES;
        for (int64_t i = 0; i < static_cast<int64_t>(a.width) * QUERIES; ++i) turned[i] = sums[i] = 0.0f;
        for (int i = 0; i < count; ++i)
            for (int k = 0; k < a.width; ++k) turned[k * QUERIES + i] = a.query[(first + i) * a.stride + k] * a.scale;
        Floats most[PIECES], total[PIECES] = {};
        for (auto& m : most) m = Floats{} - __builtin_inff();
        for (int j = 0; j < a.rows; ++j) {
            if (a.present && !a.present[j]) continue;
            Floats sum[PIECES] = {};
            score(turned, keys + static_cast<int64_t>(j) * words, words, sum);
            Floats* line = reinterpret_cast<Floats*>(scores + static_cast<int64_t>(j) * QUERIES);
            for (int i = 0; i < PIECES; ++i) {
                line[i] = sum[i];
                most[i] = sum[i] > most[i] ? sum[i] : most[i];
            }
        }
        for (int j = 0; j < a.rows; ++j) {
            if (a.present && !a.present[j]) continue;
            Floats* line = reinterpret_cast<Floats*>(scores + static_cast<int64_t>(j) * QUERIES);
            for (int i = 0; i < PIECES; ++i) total[i] += line[i] = exponential(line[i] - most[i]);
            spread(sums, values + static_cast<int64_t>(j) * words, words, line);
        }
        for (auto& t : total) t = t > 0.0f ? a.height / t : Floats{};  // no key at all: zeros, as torch has them
        for (int k = 0; k < a.width; ++k) {
            Floats* line = reinterpret_cast<Floats*>(sums + static_cast<int64_t>(k) * QUERIES);
            for (int i = 0; i < PIECES; ++i) line[i] *= total[i];
        }
        for (int i = 0; i < count; ++i)
            for (int k = 0; k < a.width; ++k) a.out[(first + i) * a.out_stride + k] = sums[k * QUERIES + i];
    }
}

}  // namespace
}  // namespace spikelm_event
