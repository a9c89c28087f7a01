#include "bench/predicted_set.h"

#include <algorithm>

#include "base/stats.h"

namespace nibble {
namespace {

constexpr double kLeastLayerBytes = 1e8;
constexpr double kMostLayerBytes = 8e9;

template <class T, std::size_t count>
T one_of(const T (&values)[count], Random& random) {
  return values[random.below(count)];
}

BenchShape draw_layer(Random& random) {
  constexpr std::int64_t kExperts[] = {8, 16, 32, 60, 64, 96, 128, 160, 256, 384};
  constexpr std::int64_t kTopK[] = {1, 2, 4, 6, 8};
  constexpr std::int64_t kTokens[] = {1, 2, 3, 5, 8, 16, 24, 48, 64, 100, 160, 256, 512, 1024};
  // Multiples of 64 from 1,024 to 8,192, and from 128 to 4,096.
  constexpr std::int64_t kUnit = 64;
  BenchShape shape{.op = BenchOp::kMoe, .name = "moe"};
  shape.format = random.below(3) == 0 ? Format::kMxfp4 : Format::kNvfp4;
  shape.experts = one_of(kExperts, random);
  shape.top_k = std::min(one_of(kTopK, random), shape.experts);
  shape.k = kUnit * (16 + static_cast<std::int64_t>(random.below(113)));
  shape.n = kUnit * (2 + static_cast<std::int64_t>(random.below(63)));
  shape.tokens = {one_of(kTokens, random)};
  return shape;
}

double layer_bytes(const BenchShape& shape) {
  const double rows = static_cast<double>(3 * shape.n);
  return static_cast<double>(shape.experts) *
         storage_bytes(shape.format, rows, static_cast<double>(shape.k)).total();
}

}  // namespace

std::vector<BenchShape> predicted_set() {
  Random random(kPredictedSeed);
  std::vector<BenchShape> shapes;
  while (shapes.size() < kPredictedShapes) {
    BenchShape shape = draw_layer(random);
    const double bytes = layer_bytes(shape);
    if (bytes < kLeastLayerBytes || bytes > kMostLayerBytes) continue;
    shape.where = "shape " + std::to_string(shapes.size() + 1) + " of the predicted set";
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace nibble
