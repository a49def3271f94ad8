// The event-driven linear as torch calls it: spikes on thresholds, or whole numbers of a code, times int8 weights.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cmath>
#include <string>
#include <vector>

#include "tiles.h"

namespace spikelm_event {
namespace {

using at::Tensor;

constexpr int64_t ROWS = 256;  // of a block: its lists stay in the second-level cache while weights pass by
constexpr int64_t STRIP = 32;  // rows whose lists one thread writes
constexpr int64_t SAMPLE = 4;  // every fourth row says how often a block fires

bool runs_here(const std::string& name) {
#if defined(__x86_64__)
    if (name == "avx512")
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
    if (name == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
#endif
    return name == "portable";
}

std::vector<std::string> paths() {
    std::vector<std::string> found;
    for (const char* name : {"avx512", "avx2", "portable"})
        if (runs_here(name)) found.emplace_back(name);
    return found;
}

const Path& path_of(const std::string& name) {
    TORCH_CHECK(runs_here(name), "this processor has no path ", name);
#if defined(__x86_64__)
    if (name == "avx512") return avx512;
    if (name == "avx2") return avx2;
#endif
    return portable;
}

Tensor packed_weight(const Tensor& weight) {
    TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kChar && weight.is_contiguous(), "weight: (outputs, inputs), int8");
    const Shape shape(weight.size(1), weight.size(0));
    Tensor packed = at::empty({shape.bytes()}, weight.options());
    pack(weight.const_data_ptr<int8_t>(), shape, packed.mutable_data_ptr<int8_t>());
    return packed;
}

// Memory that a thread keeps from call to call: fresh pages are dear.
struct Room {
    std::vector<uint16_t> positive, negative;
    std::vector<Counts> counts;
    std::vector<int32_t> net;
    std::vector<Events> events;
};

struct alignas(64) Line {
    float floats[QUERIES];
};

// Rows [start, start + rows) of one call, which share their levels and their heights.
struct Block {
    const float* x;
    int64_t rows;
    Levels levels;
    Finish finish;  // of the first row and output
};

void by_events(const Path& path, const Shape& shape, const int8_t* packed, const Block& block) {
    static thread_local Room room;
    const int64_t lists = block.rows * shape.chunks, capacity = shape.capacity(), levels = block.levels.count;
    if (static_cast<int64_t>(room.positive.size()) < lists * capacity) {
        room.positive.resize(lists * capacity);
        room.negative.resize(lists * capacity);
    }
    room.counts.resize(lists * levels);
    room.net.resize(lists);
    room.events.resize(lists);
    Room& shared = room;  // the lambdas below may run in other threads, whose own room is another
    const int64_t strips = (block.rows + STRIP - 1) / STRIP;
    at::parallel_for(0, strips, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin * STRIP; row < std::min(end * STRIP, block.rows); ++row)
            for (int64_t c = 0; c < shape.chunks; ++c) {
                const int64_t i = c * block.rows + row;
                uint16_t *positive = &shared.positive[i * capacity], *negative = &shared.negative[i * capacity];
                if (row % STRIP) {  // right behind the list of the row before: lists that lie close together stay in cache
                    const Events& before = shared.events[i - 1];
                    positive = before.positive, negative = before.negative;
                    for (int64_t v = 0; v < levels; ++v)
                        positive += GROUP * before.counts[v].positive, negative += GROUP * before.counts[v].negative;
                }
                shared.events[i] = {positive, negative, &shared.counts[i * levels], &shared.net[i]};
                path.list(block.x + row * shape.inputs + c * shape.chunk, shape.width(static_cast<int>(c)), shape.chunk,
                          block.levels, shared.events[i]);
            }
    });
    const int64_t size = shape.lines();
    at::parallel_for(0, shape.tiles, 1, [&](int64_t begin, int64_t end) {
        alignas(64) int32_t sums[ROWS * OUTPUTS];
        for (int64_t tile = begin; tile < end; ++tile) {
            const Finish finish = block.finish.at(shape, tile);
            for (int c = 0; c < shape.chunks; ++c) {
                const int8_t* lines = packed + (tile * shape.chunks + c) * size;
                const bool last = c + 1 == shape.chunks, end_of_weights = last && tile + 1 == shape.tiles;
                path.tile(lines, end_of_weights ? nullptr : lines + size, size, &shared.events[c * block.rows],
                          static_cast<int>(levels), static_cast<int>(block.rows), c == 0, last ? &finish : nullptr, sums);
            }
        }
    });
}

void densely(const Path& path, const Shape& shape, const Tensor& numbers, const Tensor& weight, const Block& block) {
    const Tensor sums = at::_int_mm(numbers, weight.t());
    const int32_t* first = sums.const_data_ptr<int32_t>();
    at::parallel_for(0, shape.tiles, 1, [&](int64_t begin, int64_t end) {
        for (int64_t tile = begin; tile < end; ++tile) {
            const Finish finish = block.finish.at(shape, tile);
            path.finish(first + tile * OUTPUTS, shape.outputs, static_cast<int>(block.rows), finish);
        }
    });
}

enum Rule { ROUND, ABOVE, REACH };  // |x / threshold| > 1/2, > 1, or x / threshold >= 1: ClipRule.fire

// Above which bound x fires. A division is rounded to the nearest float, so that each rule is one comparison.
float bound_of(float threshold, int64_t rule) {
    TORCH_CHECK(threshold > 0, "thresholds are above zero");
    return rule == ROUND ? threshold / 2 : rule == ABOVE ? threshold : std::nextafter(threshold, 0.0f);
}

// y (T, rows, outputs) of x (T, rows, inputs).
//
// Where `top` is 0, x fires spikes -1, 0 and 1 (0 and 1 where not `negative`) at `threshold` (T,) by `rule`; else it is
// whole numbers of at most `top`. `scale` is (1 or T, outputs), `step` (T, 1 or rows). A block of rows goes through
// `_int_mm` where more than `crossing` of its inputs fire.
Tensor linear(const Tensor& x, const std::optional<Tensor>& threshold, int64_t rule, bool negative, int64_t top,
              const Tensor& packed, const Tensor& weight, const Tensor& scale, const Tensor& bias,
              const std::optional<Tensor>& step, const std::optional<Tensor>& residual, double crossing, c10::string_view name) {
    TORCH_CHECK(x.dim() == 3 && x.scalar_type() == at::kFloat && x.is_contiguous(), "x: (T, rows, inputs), contiguous float32");
    const int64_t T = x.size(0), rows = x.size(1), inputs = x.size(2), outputs = weight.size(0);
    const Shape shape(inputs, outputs);
    TORCH_CHECK(weight.dim() == 2 && weight.size(1) == inputs && weight.scalar_type() == at::kChar && weight.is_contiguous(),
                "weight: (outputs, inputs), contiguous int8");
    TORCH_CHECK(packed.numel() == shape.bytes() && packed.scalar_type() == at::kChar && packed.is_contiguous(), "packed: of weight");
    TORCH_CHECK(reinterpret_cast<uintptr_t>(packed.const_data_ptr()) % OUTPUTS == 0, "packed: lines of 64 bytes");
    TORCH_CHECK(top >= 0 && top <= 127, "top: whole numbers of a byte");
    TORCH_CHECK(bias.scalar_type() == at::kFloat && bias.is_contiguous() && bias.numel() == outputs, "bias: (outputs,), float32");
    TORCH_CHECK(scale.scalar_type() == at::kFloat && scale.is_contiguous() && scale.dim() == 2 && scale.size(1) == outputs &&
                (scale.size(0) == 1 || scale.size(0) == T), "scale: (1 or T, outputs), float32");
    Tensor steps, added;
    if (step) {
        TORCH_CHECK(step->dim() == 2 && step->size(0) == T && step->scalar_type() == at::kFloat, "step: (T, 1 or rows), float32");
        steps = step->expand({T, rows}).contiguous();
    }
    if (residual) {
        TORCH_CHECK(residual->sizes() == at::IntArrayRef({T, rows, outputs}) && residual->scalar_type() == at::kFloat, "residual: as y");
        added = residual->contiguous();
    }
    TORCH_CHECK(top || (threshold && threshold->numel() == T && threshold->scalar_type() == at::kFloat && threshold->is_contiguous()),
                "threshold: (T,), float32");
    const Path& path = path_of(std::string(name));
    const bool listed = top <= LEVELS;
    Tensor y = at::empty({T, rows, outputs}, x.options());
    for (int64_t t = 0; t < T; ++t)
        for (int64_t start = 0; start < rows; start += ROWS) {
            const int64_t first = t * rows + start;
            Block block{x.const_data_ptr<float>() + first * inputs, std::min(ROWS, rows - start), {}, {}};
            block.levels.count = listed && top ? static_cast<int>(top) : 1;
            block.levels.negative = negative;
            for (int v = 0; v < block.levels.count; ++v)
                block.levels.bound[v] = top ? v + 0.5f : bound_of(threshold->const_data_ptr<float>()[t], rule);
            block.finish = {scale.const_data_ptr<float>() + (scale.size(0) == 1 ? 0 : t * outputs),
                            bias.const_data_ptr<float>(),
                            step ? steps.const_data_ptr<float>() + first : nullptr,
                            residual ? added.const_data_ptr<float>() + first * outputs : nullptr,
                            y.mutable_data_ptr<float>() + first * outputs,
                            outputs,
                            OUTPUTS};
            bool dense = !listed;
            if (listed && crossing < 1) {
                int64_t found = 0, seen = 0;
                for (int64_t row = 0; row < block.rows; row += SAMPLE, seen += inputs)
                    found += path.count(block.x + row * inputs, inputs, block.levels);
                dense = static_cast<double>(found) > crossing * static_cast<double>(seen);
            }
            if (!dense) {
                by_events(path, shape, packed.const_data_ptr<int8_t>(), block);
                continue;
            }
            Tensor numbers;
            if (top) {
                numbers = x.view({T * rows, inputs}).narrow(0, first, block.rows).to(at::kChar);
            } else {
                numbers = at::empty({block.rows, inputs}, x.options().dtype(at::kChar));
                path.levels_of(block.x, block.rows * inputs, block.levels, numbers.mutable_data_ptr<int8_t>());
            }
            densely(path, shape, numbers, weight, block);
        }
    return y;
}

// Attention of qkv (T, sentences * n, 3 H), queries beside keys beside values, to (T, sentences * n, H).
//
// Keys and values fire on the thresholds (T, 1, 2 H), as high as `height`, which are one number for all keys of a time
// step and one for all values. `present` (T * sentences, n) says which keys there are.
Tensor attention(const Tensor& qkv, const std::optional<Tensor>& present, int64_t sentences, int64_t heads, const Tensor& threshold,
                 const Tensor& height, int64_t rule, bool negative, c10::string_view name) {
    TORCH_CHECK(qkv.dim() == 3 && qkv.scalar_type() == at::kFloat && qkv.is_contiguous(), "qkv: (T, rows, 3 H), contiguous float32");
    const int64_t T = qkv.size(0), rows = qkv.size(1), hidden = qkv.size(2) / 3, n = rows / sentences, width = hidden / heads;
    TORCH_CHECK(qkv.size(2) == 3 * heads * width && rows == sentences * n, "qkv: whole sentences and heads");
    for (const Tensor* given : {&threshold, &height})
        TORCH_CHECK(given->numel() == T * 2 * hidden && given->scalar_type() == at::kFloat && given->is_contiguous(), "(T, 1, 2 H), float32");
    Tensor there;
    if (present) {
        TORCH_CHECK(present->scalar_type() == at::kBool && present->numel() == T * sentences * n, "present: (T * sentences, n), bool");
        there = present->contiguous();
    }
    const Path& path = path_of(std::string(name));
    std::vector<float> bounds(T * 2), heights(T * 2);
    for (int64_t i = 0; i < T * 2; ++i) {
        bounds[i] = bound_of(threshold.const_data_ptr<float>()[i * hidden], rule);
        heights[i] = height.const_data_ptr<float>()[i * hidden];
    }
    Tensor y = at::empty({T, rows, hidden}, qkv.options());
    const float *first = qkv.const_data_ptr<float>(), root = std::sqrt(static_cast<float>(width));
    const bool* keys = present ? there.const_data_ptr<bool>() : nullptr;
    float* out = y.mutable_data_ptr<float>();
    at::parallel_for(0, T * sentences * heads, 1, [&](int64_t begin, int64_t end) {
        static thread_local std::vector<Line> room;
        room.resize(std::max<size_t>(room.size(), Attention::lines(n, width)));
        for (int64_t i = begin; i < end; ++i) {
            const int64_t sentence = i / heads, column = i % heads * width, t = sentence / sentences;
            const float* query = first + sentence * n * 3 * hidden + column;
            path.attend({query, query + hidden, query + 2 * hidden, 3 * hidden, static_cast<int>(n), static_cast<int>(width),
                         keys ? keys + sentence * n : nullptr, negative, bounds[2 * t], bounds[2 * t + 1], heights[2 * t] / root,
                         heights[2 * t + 1], out + sentence * n * hidden + column, hidden, room.data()->floats});
        }
    });
    return y;
}

}  // namespace

TORCH_LIBRARY(spikelm_event, library) {
    library.def("paths() -> str[]", &paths);
    library.def("pack(Tensor weight) -> Tensor");
    library.impl("pack", at::DispatchKey::CPU, TORCH_FN(packed_weight));
    library.def(
        "linear(Tensor x, Tensor? threshold, int rule, bool negative, int top, Tensor packed, Tensor weight, Tensor scale, "
        "Tensor bias, Tensor? step, Tensor? residual, float crossing, str path) -> Tensor");
    library.impl("linear", at::DispatchKey::CPU, TORCH_FN(linear));
    library.def(
        "attention(Tensor qkv, Tensor? present, int sentences, int heads, Tensor threshold, Tensor height, int rule, "
        "bool negative, str path) -> Tensor");
    library.impl("attention", at::DispatchKey::CPU, TORCH_FN(attention));
}

}  // namespace spikelm_event
