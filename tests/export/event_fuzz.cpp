// Random products through every path beside plain loops, in memory of exactly the size that is asked for.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tiles.h"

using namespace spikelm_event;

namespace {

std::mt19937 noise(1);

int64_t below(int64_t end) { return static_cast<int64_t>(noise() % static_cast<uint32_t>(end)); }

struct Aligned {
    int8_t* bytes;
    explicit Aligned(int64_t size) : bytes(static_cast<int8_t*>(std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64)))) {}
    ~Aligned() { std::free(bytes); }
};

void product(const Path& path, int64_t rows, int64_t inputs, int64_t outputs, int top, double share, bool negative, bool with_step,
             bool with_residual) {
    const Shape shape(inputs, outputs);
    std::vector<int8_t> weight(static_cast<size_t>(inputs * outputs));
    for (auto& w : weight) w = static_cast<int8_t>(below(256) - 128);
    std::vector<float> x(static_cast<size_t>(rows * inputs)), scale(static_cast<size_t>(outputs)), bias(scale), step(static_cast<size_t>(rows));
    std::vector<float> y(static_cast<size_t>(rows * outputs), -1.0f), residual(y.size());
    std::vector<int> n(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        n[i] = below(1000) < share * 1000 ? static_cast<int>(1 + below(top)) * (negative && below(2) ? -1 : 1) : 0;
        x[i] = static_cast<float>(n[i]);
    }
    for (auto* floats : {&scale, &bias, &step, &residual})
        for (auto& value : *floats) value = static_cast<float>(below(1000)) / 512.0f;
    Levels levels{top, negative, {}};
    for (int v = 0; v < top; ++v) levels.bound[v] = static_cast<float>(v) + 0.5f;

    Aligned packed(shape.bytes());
    pack(weight.data(), shape, packed.bytes);
    const auto lists = static_cast<size_t>(rows * shape.chunks), capacity = static_cast<size_t>(shape.capacity());
    std::vector<Counts> counts(lists * static_cast<size_t>(top));
    std::vector<int32_t> net(lists);
    std::vector<std::unique_ptr<uint16_t[]>> kept;
    std::vector<Events> events(lists);
    for (size_t i = 0; i < lists; ++i) {
        for (int side = 0; side < 2; ++side) kept.emplace_back(new uint16_t[capacity]);
        events[i] = {kept[2 * i].get(), kept[2 * i + 1].get(), &counts[i * static_cast<size_t>(top)], &net[i]};
        const int c = static_cast<int>(static_cast<int64_t>(i) / rows);
        const int64_t row = static_cast<int64_t>(i) % rows;
        path.list(x.data() + row * inputs + c * shape.chunk, shape.width(c), shape.chunk, levels, events[i]);
    }
    const Finish whole{scale.data(), bias.data(), with_step ? step.data() : nullptr, with_residual ? residual.data() : nullptr,
                       y.data(), outputs, OUTPUTS};
    Aligned sums(rows * OUTPUTS * 4);
    for (int tile = 0; tile < shape.tiles; ++tile) {
        const Finish finish = whole.at(shape, tile);
        for (int c = 0; c < shape.chunks; ++c) {
            const int8_t* lines = packed.bytes + (static_cast<int64_t>(tile) * shape.chunks + c) * shape.lines();
            const bool end = tile + 1 == shape.tiles && c + 1 == shape.chunks;
            path.tile(lines, end ? nullptr : lines + shape.lines(), shape.lines(), &events[static_cast<size_t>(c * rows)], top,
                      static_cast<int>(rows), c == 0, c + 1 == shape.chunks ? &finish : nullptr,
                      reinterpret_cast<int32_t*>(sums.bytes));
        }
    }
    int64_t fired = 0;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t k = 0; k < inputs; ++k) fired += n[static_cast<size_t>(row * inputs + k)] != 0;
        for (int64_t j = 0; j < outputs; ++j) {
            int64_t sum = 0;
            for (int64_t k = 0; k < inputs; ++k)
                sum += n[static_cast<size_t>(row * inputs + k)] * weight[static_cast<size_t>(j * inputs + k)];
            volatile float wanted = static_cast<float>(sum) * scale[static_cast<size_t>(j)];  // no product and sum in one
            if (with_step) wanted = wanted * step[static_cast<size_t>(row)];
            wanted = wanted + bias[static_cast<size_t>(j)];
            if (with_residual) wanted = wanted + residual[static_cast<size_t>(row * outputs + j)];
            const float found = y[static_cast<size_t>(row * outputs + j)];
            if (found != wanted) {
                std::fprintf(stderr, "%s: %lld x %lld x %lld, top %d: %g is not %g\n", path.name, static_cast<long long>(rows),
                             static_cast<long long>(inputs), static_cast<long long>(outputs), top, found, wanted);
                std::exit(1);
            }
        }
    }
    if (path.count(x.data(), static_cast<int64_t>(x.size()), levels) != fired) {
        std::fprintf(stderr, "%s counts wrongly\n", path.name);
        std::exit(1);
    }
    if (top == 1) {
        std::vector<int8_t> bytes(x.size());
        path.levels_of(x.data(), static_cast<int64_t>(x.size()), levels, bytes.data());
        for (size_t i = 0; i < x.size(); ++i)
            if (bytes[i] != n[i]) {
                std::fprintf(stderr, "%s fires wrongly\n", path.name);
                std::exit(1);
            }
    }
}

// One head beside plain loops in double precision.
void attention(const Path& path, int rows, int width, double share, bool negative, bool masked) {
    const auto size = static_cast<size_t>(rows * width);
    std::vector<float> query(size), key(size), value(size), out(size, -1.0f);
    const auto present = std::make_unique<bool[]>(static_cast<size_t>(rows));
    for (int j = 0; j < rows; ++j) present[static_cast<size_t>(j)] = !masked || below(2);
    for (size_t i = 0; i < size; ++i) query[i] = static_cast<float>(below(1000) - 500) / 250.0f;
    for (auto* spikes : {&key, &value})
        for (auto& s : *spikes) s = below(1000) < share * 1000 ? (negative && below(2) ? -1.0f : 1.0f) : 0.0f;
    Aligned room(Attention::lines(rows, width) * QUERIES * 4);
    path.attend({query.data(), key.data(), value.data(), width, rows, width, masked ? present.get() : nullptr, negative, 0.5f, 0.5f, 0.1f,
                 2.0f, out.data(), width, reinterpret_cast<float*>(room.bytes)});
    for (int i = 0; i < rows; ++i) {
        double total = 0;
        std::vector<double> sums(static_cast<size_t>(width));
        for (int j = 0; j < rows; ++j) {
            if (!present[static_cast<size_t>(j)]) continue;
            double score = 0;
            for (int k = 0; k < width; ++k)
                score += static_cast<double>(query[static_cast<size_t>(i * width + k)]) * key[static_cast<size_t>(j * width + k)];
            const double p = std::exp(0.1 * score);
            total += p;
            for (int k = 0; k < width; ++k) sums[static_cast<size_t>(k)] += p * value[static_cast<size_t>(j * width + k)];
        }
        for (int k = 0; k < width; ++k) {
            const double wanted = total > 0 ? 2.0 * sums[static_cast<size_t>(k)] / total : 0.0;
            const double found = out[static_cast<size_t>(i * width + k)];
            if (!(std::fabs(found - wanted) < 1e-4)) {
                std::fprintf(stderr, "%s: attention of %d x %d: %g is not %g\n", path.name, rows, width, found, wanted);
                std::exit(1);
            }
        }
    }
}

}  // namespace

int main() {
    const Path* all[] = {
#ifdef HAS_AVX512
        &avx512,
#endif
#ifdef HAS_AVX2
        &avx2,
#endif
        &portable};
    const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 767, 768, 769, 1537};
    const double shares[] = {0.0, 0.03, 0.3, 1.0};
    for (const Path* path : all) {
        int done = 0;
        for (; done < 120; ++done) {
            const int top = below(2) ? 1 : static_cast<int>(1 + below(LEVELS));
            product(*path, 1 + below(20), sizes[below(16)], sizes[below(12)], top, shares[below(4)], below(4) != 0, below(2), below(2));
        }
        for (int i = 0; i < 40; ++i)
            attention(*path, static_cast<int>(1 + below(140)), static_cast<int>(sizes[below(11)]), shares[below(4)], below(4) != 0, below(2));
        std::printf("%s: %d products\n", path->name, done);
    }
}
