// What the event-driven product is made of, without torch: lists of events and tiles of weights.
//
// A row of whole numbers n (the levels -1, 0 and 1 of a spike, or the numbers of a code) becomes, for each magnitude, one
// list of the inputs where n is positive and one where it is negative. A product adds up the weights of those inputs:
//
//     sum_k n_k w_k = S_L + (S_L + S_{L-1}) + ... + (S_L + ... + S_1)     S_v the signed sum of w_k over |n_k| = v
//
// Weights lie in tiles of 64 outputs: one cache line for each input, so that an event is one load. A line holds 16 groups
// of 4 bytes; byte b of group i is the weight of output 16 b + i, and its even bytes are raised by 128 (`pack`).
#pragma once

#include <cstdint>

namespace spikelm_event {

constexpr int OUTPUTS = 64;  // of a tile
constexpr int GROUP = 4;  // events that are added at once; lists are filled up with a line of zeros
constexpr int CHUNK = 768;  // inputs at most whose lines are read together: they fill a first-level cache of 48 KB
constexpr int SCALE = 8;  // list entries are 8 k, which is less to compute for an address
constexpr int SLACK = 64;  // entries behind a list that a vector store may touch
constexpr int QUERIES = 64;  // that attention computes at once
constexpr int LEVELS = 16;  // magnitudes at most

struct Shape {
    int64_t inputs, outputs;
    int chunks, chunk, tiles;

    Shape(int64_t inputs, int64_t outputs)
        : inputs(inputs),
          outputs(outputs),
          chunks(inputs ? static_cast<int>((inputs + CHUNK - 1) / CHUNK) : 1),
          chunk(static_cast<int>((inputs + chunks - 1) / chunks)),
          tiles(static_cast<int>((outputs + OUTPUTS - 1) / OUTPUTS)) {}

    int width(int c) const {  // inputs of chunk c
        int64_t left = inputs - static_cast<int64_t>(c) * chunk;
        return static_cast<int>(left < 0 ? 0 : left < chunk ? left : chunk);
    }
    int64_t lines() const { return static_cast<int64_t>(chunk + 1) * OUTPUTS; }  // bytes of a tile's chunk
    int64_t bytes() const { return lines() * chunks * tiles; }
    int64_t capacity() const { return chunk + GROUP * LEVELS + SLACK; }  // entries of a list
};

// Which numbers a float stands for: magnitude v = 1 ... count where bound[v-1] < |x| <= bound[v], the last without end.
struct Levels {
    int count;
    bool negative;  // whether there are negative numbers
    float bound[LEVELS];
};

struct Counts {  // groups of four events of one magnitude
    uint16_t positive, negative;
};

// The events of one row in one chunk: magnitudes from the largest to the smallest, one behind the other.
struct Events {
    uint16_t* positive;
    uint16_t* negative;
    Counts* counts;  // [levels]
    int32_t* net;  // the sum of its numbers
};

// What becomes of the sums: y = sum * scale (* step) + bias (+ residual), each operation rounded as torch's own are.
struct Finish {
    const float* scale;  // of the tile's outputs
    const float* bias;
    const float* step;  // of each row, or none
    const float* residual;  // where `out` lies, or none
    float* out;  // of the first row and the tile's first output
    int64_t stride;
    int outputs;  // of the tile, 64 but for the last

    Finish at(const Shape& shape, int64_t tile) const {
        const int64_t n = tile * OUTPUTS, left = shape.outputs - n;
        return {scale + n, bias + n, step, residual ? residual + n : nullptr, out + n, stride,
                static_cast<int>(left < OUTPUTS ? left : OUTPUTS)};
    }
};

// One head of one sentence, whose keys and values fire -1, 0 and 1 where they are beyond a bound.
struct Attention {
    const float *query, *key, *value;
    int64_t stride;  // from row to row of each
    int rows, width;
    const bool* present;  // of each key, or none
    bool negative;  // whether there are negative spikes
    float key_bound, value_bound;
    float scale, height;  // of scores, and of what the values are
    float* out;
    int64_t out_stride;
    float* room;  // lines() of QUERIES floats, aligned

    static int64_t lines(int64_t rows, int64_t width) { return rows + 2 * width + (rows * ((width + 63) / 64) * 2 * 4 + QUERIES - 1) / QUERIES; }
};

// One of several ways to compute the same, by what the processor has.
struct Path {
    const char* name;
    // The events of one row's chunk of `width` inputs.
    void (*list)(const float* x, int width, int zero, const Levels& levels, Events events);
    // How many of x are not zero.
    int64_t (*count)(const float* x, int64_t size, const Levels& levels);
    // The levels -1, 0 and 1 of x as bytes, where there is one magnitude.
    void (*levels_of)(const float* x, int64_t size, const Levels& levels, int8_t* n);
    // Sums of `rows` rows over a tile's chunk, added to `sums` (rows, 64) where it is not the first; the last one finishes.
    void (*tile)(const int8_t* lines, const int8_t* next, int64_t bytes, const Events* events, int levels, int rows,
                 bool first, const Finish* finish, int32_t* sums);
    // y of sums (rows, stride) that were computed elsewhere.
    void (*finish)(const int32_t* sums, int64_t stride, int rows, const Finish& finish);
    void (*attend)(const Attention& attention);
};

extern const Path portable;
extern const Path avx2;
extern const Path avx512;

// The weights (outputs, inputs) of all tiles, in the layout that is said above.
inline void pack(const int8_t* weight, const Shape& shape, int8_t* packed) {
    for (int tile = 0; tile < shape.tiles; ++tile)
        for (int c = 0; c < shape.chunks; ++c) {
            int8_t* lines = packed + (static_cast<int64_t>(tile) * shape.chunks + c) * shape.lines();
            for (int64_t i = 0; i < shape.lines(); ++i) lines[i] = 0;
            for (int k = 0; k < shape.width(c); ++k)
                for (int j = 0; j < OUTPUTS; ++j) {
                    const int64_t n = static_cast<int64_t>(tile) * OUTPUTS + j;
                    const int b = j / 16;
                    const int value = n < shape.outputs
                        ? weight[n * shape.inputs + static_cast<int64_t>(c) * shape.chunk + k] : 0;
                    lines[k * OUTPUTS + 4 * (j % 16) + b] = static_cast<int8_t>(b % 2 ? value : value + 128);
                }
        }
}

}  // namespace spikelm_event
