#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "base/stats.h"
#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/gemm/cases.h"
#include "kernels/gemm/layout.h"
#include "kernels/gemm/reference.h"

namespace nibble {
namespace {

// Standard normal values from two uniform ones (Box and Muller).
std::vector<float> gaussian(Random& random, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t at = 0; at < count; ++at) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    values.push_back(static_cast<float>(radius * std::cos(6.283185307179586 * random.uniform())));
  }
  return values;
}

// Any bytes that the format allows: every scale from the smallest to the largest.
QuantizedBytes random_bytes(Random& random, Format format, std::int64_t rows,
                            std::int64_t columns) {
  QuantizedBytes bytes{.format = format, .rows = rows, .columns = columns};
  bytes.codes.resize(static_cast<std::size_t>(rows * columns / 2));
  const std::int64_t block = format == Format::kMxfp4 ? 32 : 16;
  bytes.scales.resize(static_cast<std::size_t>(rows * ((columns + block - 1) / block)));
  for (std::uint8_t& byte : bytes.codes) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::uint8_t& byte : bytes.scales) {
    // e8m0 within 2^-20 .. 2^19 of one: beyond, a product of such weights leaves fp32.
    byte = static_cast<std::uint8_t>(format == Format::kMxfp4 ? 107 + random.below(40)
                                                              : random.below(0x7f));
  }
  bytes.factor = format == Format::kMxfp4 ? 1.0F : 0.37F;
  return bytes;
}

QuantizedBytes random_weights(Random& random, Format format, std::int64_t rows,
                              std::int64_t columns) {
  if (format == Format::kBf16)
    return quantize_bf16(gaussian(random, rows * columns), rows, columns);
  return random_bytes(random, format, rows, columns);
}

struct Routed {
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> row_of;
};

// Each token meets top_k different experts; 0: all meet expert 0 alone.
Routed route(Random& random, const GemmCase& shape) {
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(shape.experts));
  for (std::int32_t token = 0; token < shape.tokens; ++token) {
    std::vector<bool> met(rows.size(), false);
    for (std::int64_t pick = 0; pick < std::max<std::int64_t>(1, shape.top_k); ++pick) {
      std::size_t expert = shape.top_k == 0 ? 0 : random.below(rows.size());
      while (met[expert]) expert = (expert + 1) % rows.size();
      met[expert] = true;
      rows[expert].push_back(token);
    }
  }
  Routed routed{.offsets = {0}};
  for (const std::vector<std::int32_t>& of_expert : rows) {
    routed.row_of.insert(routed.row_of.end(), of_expert.begin(), of_expert.end());
    routed.offsets.push_back(static_cast<std::int32_t>(routed.row_of.size()));
  }
  return routed;
}

// One case with its weights, activations and slots.
struct Scene {
  std::vector<QuantizedBytes> owned;
  std::vector<QuantizedMatrix> experts;
  std::vector<float> x;
  Routed routed;
  std::int64_t n = 0;
  std::int64_t k = 0;

  Scene(const GemmCase& shape, Format format, std::uint64_t seed) : n(shape.n), k(shape.k) {
    Random random(seed);
    for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
      owned.push_back(random_weights(random, format, n, k));
    }
    for (const QuantizedBytes& bytes : owned) experts.push_back(bytes.view());
    x = gaussian(random, shape.tokens * k);
    routed = route(random, shape);
  }

  std::vector<float> run(Format activations, Isa isa, int threads) const {
    ThreadPool pool(threads);
    Result<PackedWeights> weights = PackedWeights::pack(experts, isa, pool);
    EXPECT_TRUE(weights.ok()) << weights.error().message;
    Result<PackedActivations> rows = PackedActivations::make(
        static_cast<std::int64_t>(x.size()) / k, k, activations, isa, experts.front().format);
    EXPECT_TRUE(rows.ok()) << rows.error().message;
    rows->quantize(x, pool);
    std::vector<float> y(routed.row_of.size() * static_cast<std::size_t>(n), -1e30F);
    gemm({.weights = *weights,
          .activations = *rows,
          .offsets = routed.offsets,
          .row_of = routed.row_of,
          .output = y},
         pool);
    return y;
  }

  std::vector<double> reference(Format activations) const {
    const std::vector<double> rounded = rounded_activations(x, k, activations);
    std::vector<double> y;
    for (std::size_t expert = 0; expert < experts.size(); ++expert) {
      std::vector<double> gathered;
      for (std::int32_t at = routed.offsets[expert]; at < routed.offsets[expert + 1]; ++at) {
        const auto row = rounded.begin() + routed.row_of[static_cast<std::size_t>(at)] * k;
        gathered.insert(gathered.end(), row, row + k);
      }
      std::vector<double> out(gathered.size() / static_cast<std::size_t>(k) *
                              static_cast<std::size_t>(n));
      gemm_reference(experts[expert], gathered, out);
      y.insert(y.end(), out.begin(), out.end());
    }
    return y;
  }
};

// |y - expected| / |expected|, both as vectors.
double relative_l2(const std::vector<float>& y, const std::vector<double>& expected) {
  double error = 0;
  double norm = 0;
  for (std::size_t at = 0; at < y.size(); ++at) {
    const double difference = static_cast<double>(y[at]) - expected[at];
    error += difference * difference;
    norm += expected[at] * expected[at];
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

struct Path {
  Format weights;
  Format activations;
  double bound;  // against the reference with activations rounded alike
};

// Sums of integers are exact; what is left is fp32: a few roundings of 2^-24 in each of K / 32
// additions, at most 32 here. bf16 activations far below the largest of their 64 lose up to 2^-14
// of it. fp32 ones all lose up to 2^-15 of it, evenly spread: 2^-15 / sqrt(3) times a largest of
// about 3 of their size is 5e-5. int8 activations on a tie may round the other way where the
// quotient is not a number of fp32: the whole step of one value, 1 / (127 * sqrt(64)) of a scale at
// worst.
constexpr Path kPaths[] = {
    {Format::kNvfp4, Format::kBf16, 1e-4},  {Format::kNvfp4, Format::kInt8, 1e-3},
    {Format::kNvfp4, Format::kNvfp4, 2e-6}, {Format::kMxfp4, Format::kBf16, 1e-4},
    {Format::kMxfp4, Format::kInt8, 1e-3},  {Format::kMxfp4, Format::kNvfp4, 2e-6},
    {Format::kBf16, Format::kBf16, 2e-6},   {Format::kNvfp4, Format::kFp32, 1e-4},
    {Format::kMxfp4, Format::kFp32, 1e-4},  {Format::kBf16, Format::kFp32, 2e-6},
};

std::string label(const GemmCase& shape, const Path& path) {
  return std::string(shape.name) + ", " + std::string(to_string(path.weights)) + " x " +
         std::string(to_string(path.activations));
}

TEST(Gemm, EqualsTheReferenceOnEveryCaseAndInstructionSet) {
  for (const GemmCase& shape : gemm_cases()) {
    for (const Path& path : kPaths) {
      const Scene scene(shape, path.weights, 7);
      const std::vector<double> expected = scene.reference(path.activations);
      for (const Isa isa : usable_isas()) {
        EXPECT_LE(relative_l2(scene.run(path.activations, isa, 1), expected), path.bound)
            << label(shape, path) << ", " << to_string(isa);
      }
    }
  }
}

TEST(Gemm, HasTheSameBitsOnEveryInstructionSetAndAnyNumberOfThreads) {
  for (const GemmCase& shape : gemm_cases()) {
    for (const Path& path : kPaths) {
      const Scene scene(shape, path.weights, 11);
      const std::vector<float> expected = scene.run(path.activations, Isa::kPortable, 1);
      for (const Isa isa : usable_isas()) {
        for (const int threads : {1, 3}) {
          EXPECT_TRUE(same_bits(scene.run(path.activations, isa, threads), expected))
              << label(shape, path) << ", " << to_string(isa) << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST(Gemm, ARowDoesNotDependOnItsBatch) {
  const GemmCase many{.name = "batch", .n = 40, .k = 96, .tokens = 70};
  for (const Path& path : kPaths) {
    const Scene batch(many, path.weights, 3);
    const std::vector<float> together = batch.run(path.activations, best_isa(), 2);
    for (const std::int64_t token : {0, 1, 33, 69}) {
      Scene alone = batch;
      alone.experts.clear();
      for (const QuantizedBytes& bytes : alone.owned) alone.experts.push_back(bytes.view());
      alone.x.assign(batch.x.begin() + token * many.k, batch.x.begin() + (token + 1) * many.k);
      alone.routed = {.offsets = {0, 1}, .row_of = {0}};
      const std::vector<float> expected(together.begin() + token * many.n,
                                        together.begin() + (token + 1) * many.n);
      EXPECT_TRUE(same_bits(alone.run(path.activations, best_isa(), 2), expected))
          << label(many, path) << ", token " << token;
    }
  }
}

// Rows lie further apart than their groups are long: 64 columns take half of their stride. The last
// row of many must have its memory too (it had not, and 32,768 rows wrote past a huge page).
TEST(Gemm, TheLastOfManyRowsIsThatOfTheRowAlone) {
  const GemmCase many{.name = "many rows", .n = 1, .k = 64, .tokens = 32768};
  for (const Format activations : {Format::kFp32, Format::kBf16, Format::kInt8, Format::kNvfp4}) {
    Scene scene(many, Format::kNvfp4, 9);
    const std::vector<float> together = scene.run(activations, best_isa(), 2);
    scene.x.erase(scene.x.begin(), scene.x.end() - many.k);
    scene.routed = {.offsets = {0, 1}, .row_of = {0}};
    const std::vector<float> alone = scene.run(activations, best_isa(), 1);
    EXPECT_TRUE(same_bits({together.back()}, alone)) << to_string(activations);
  }
}

// The bounds that users are promised, on Gaussian activations that nothing rounded before, and
// weights whose scales are random over all of their range.
TEST(Gemm, KeepsItsPromisedAccuracy) {
  const GemmCase shape{.name = "accuracy", .n = 64, .k = 2048, .tokens = 4};
  for (const Format weights : {Format::kNvfp4, Format::kMxfp4}) {
    const Scene scene(shape, weights, 5);
    const std::vector<double> exact = scene.reference(Format::kFp32);
    const Isa isa = best_isa();
    EXPECT_LE(relative_l2(scene.run(Format::kFp32, isa, 2), exact), 1e-4);
    EXPECT_LE(relative_l2(scene.run(Format::kBf16, isa, 2), exact), 3e-3);
    EXPECT_LE(relative_l2(scene.run(Format::kInt8, isa, 2), exact), 1e-2);
    EXPECT_LE(relative_l2(scene.run(Format::kNvfp4, isa, 2), scene.reference(Format::kNvfp4)),
              1e-5);
  }
}

// By hand: codes 1.0 (0x2) and -6 (0xf) in one byte, scale 0x38 = 1.0, factor 0.5, x = (2, 3):
// (1 * 2 + -6 * 3) * 0.5 = -8.
TEST(Gemm, MultipliesOnePairByHand) {
  QuantizedBytes bytes{.format = Format::kNvfp4, .rows = 1, .columns = 2};
  bytes.codes = {0xf2};
  bytes.scales = {0x38};
  bytes.factor = 0.5F;
  Scene scene(GemmCase{.n = 1, .k = 2}, Format::kNvfp4, 1);
  scene.owned = {bytes};
  scene.experts = {scene.owned.front().view()};
  scene.x = {2, 3};
  for (const Isa isa : usable_isas()) {
    EXPECT_EQ(scene.run(Format::kBf16, isa, 1).front(), -8.0F) << to_string(isa);
    EXPECT_EQ(scene.run(Format::kFp32, isa, 1).front(), -8.0F) << to_string(isa);
    // 127 / 3 * 2 = 84.67 becomes 85: 85 * 3 / 127 = 2.00787 instead of 2.
    EXPECT_NEAR(scene.run(Format::kInt8, isa, 1).front(), (85.0 * 3 / 127 - 18) * 0.5, 1e-5);
  }
}

TEST(Gemm, RowsOfOneMatrixKeepTheirOwnFactors) {
  Scene scene(GemmCase{.n = 4, .k = 32}, Format::kNvfp4, 2);
  QuantizedMatrix matrix = scene.owned.front().view();
  matrix.segments = {{0, 1.0F}};
  scene.experts = {matrix};
  const std::vector<float> one = scene.run(Format::kBf16, best_isa(), 1);
  matrix.segments = {{0, 1.0F}, {2, 4.0F}};
  scene.experts = {matrix};
  const std::vector<float> two = scene.run(Format::kBf16, best_isa(), 1);
  EXPECT_EQ(two[0], one[0]);
  EXPECT_EQ(two[1], one[1]);
  EXPECT_EQ(two[2], 4 * one[2]);
  EXPECT_EQ(two[3], 4 * one[3]);
}

TEST(Gemm, ValuesThatAreNotFiniteShow) {
  for (const Format activations : {Format::kFp32, Format::kBf16, Format::kInt8, Format::kNvfp4}) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      Scene scene(GemmCase{.n = 3, .k = 64, .tokens = 2}, Format::kNvfp4, 4);
      scene.x[70] = bad;
      const std::vector<float> y = scene.run(activations, best_isa(), 1);
      for (int row = 0; row < 3; ++row) {
        EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(row)]));
        EXPECT_FALSE(std::isfinite(y[static_cast<std::size_t>(3 + row)])) << to_string(activations);
      }
    }
  }
}

TEST(Gemm, TinyAndHugeActivationsStayRight) {
  for (const Format activations : {Format::kFp32, Format::kBf16, Format::kInt8}) {
    for (const float size : {1e-28F, 1e-10F, 1e20F}) {
      Scene scene(GemmCase{.n = 8, .k = 64}, Format::kNvfp4, 6);
      for (float& value : scene.x) value *= size;
      EXPECT_LE(relative_l2(scene.run(activations, best_isa(), 1), scene.reference(activations)),
                1e-3)
          << size;
    }
  }
}

TEST(PackedWeights, RefusesWhatItCannotMultiply) {
  ThreadPool pool(1);
  Random random(1);
  const auto message = [&](const QuantizedMatrix& matrix) {
    const Result<PackedWeights> packed = PackedWeights::pack({&matrix, 1}, Isa::kPortable, pool);
    return packed.ok() ? std::string() : packed.error().message;
  };
  QuantizedBytes bytes = random_bytes(random, Format::kNvfp4, 4, 32);
  EXPECT_EQ(message(bytes.view()), "");
  bytes.scales[5] = 0x7f;
  EXPECT_NE(message(bytes.view()).find("row 2, block 1 is 0x7f, not a number"), std::string::npos);
  bytes.scales[5] = 0x81;
  EXPECT_NE(message(bytes.view()).find("negative"), std::string::npos);
  bytes.scales[5] = 0;
  bytes.codes.pop_back();
  EXPECT_NE(message(bytes.view()), "");
  QuantizedMatrix fp8{.format = Format::kFp8, .rows = 1, .columns = 2};
  EXPECT_NE(message(fp8).find("nvfp4, mxfp4 and bf16"), std::string::npos);
  EXPECT_FALSE(PackedWeights::pack({}, Isa::kPortable, pool).ok());
  const std::vector<QuantizedBytes> unlike = {random_bytes(random, Format::kNvfp4, 4, 32),
                                              random_bytes(random, Format::kNvfp4, 4, 64)};
  const std::vector<QuantizedMatrix> views = {unlike[0].view(), unlike[1].view()};
  const Result<PackedWeights> packed = PackedWeights::pack(views, Isa::kPortable, pool);
  ASSERT_FALSE(packed.ok());
  EXPECT_NE(packed.error().message.find("expert 1"), std::string::npos);
}

TEST(PackedActivations, RefuseWhatTheyCannotHold) {
  EXPECT_FALSE(PackedActivations::make(1, 0, Format::kBf16, Isa::kPortable).ok());
  EXPECT_FALSE(PackedActivations::make(-1, 2, Format::kBf16, Isa::kPortable).ok());
  EXPECT_FALSE(PackedActivations::make(1, 2, Format::kFp8, Isa::kPortable).ok());
  EXPECT_FALSE(PackedActivations::make(1, 2, Format::kInt8, Isa::kPortable, Format::kBf16).ok());
}

TEST(Layout, EveryCodeHasItsOwnPlace) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    std::vector<int> taken(2 * kCodeBytes, 0);
    std::vector<int> columns(kGroupColumns, 0);
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < 4; ++i) {
        ++columns[static_cast<std::size_t>(column_of(isa, step, i))];
        for (int row = 0; row < kTileRows; ++row) {
          const CodePlace place = code_place(isa, row, step, i);
          ++taken[static_cast<std::size_t>(2 * place.byte + (place.high ? 1 : 0))];
        }
      }
    }
    for (const int count : taken) EXPECT_EQ(count, 1);
    for (const int count : columns) EXPECT_EQ(count, 1);
  }
}

// A bf16 row is two streams where weights are integers, so half as many rows are a pass.
TEST(Gemm, IsCutInWholeTilesAndPassesOfStreams) {
  for (const Isa isa : usable_isas()) {
    const GemmCut one = gemm_cut(Format::kNvfp4, Format::kInt8, isa);
    const GemmCut two = gemm_cut(Format::kMxfp4, Format::kBf16, isa);
    EXPECT_EQ(one.unit_rows % one.tile_rows, 0);
    EXPECT_EQ(one.pass_rows, 2 * two.pass_rows);
    EXPECT_EQ(one.passing_rows, 2 * two.passing_rows);
    EXPECT_LT(one.passing_rows, one.pass_rows);
    const GemmCut bf16 = gemm_cut(Format::kBf16, Format::kBf16, isa);
    EXPECT_EQ(bf16.unit_rows, bf16.tile_rows);  // a tile at a time
  }
}

}  // namespace
}  // namespace nibble
