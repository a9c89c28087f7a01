// Prepacked weights on a GPU; and the host's part, which needs none.
#include <cmath>
#include <fmt/core.h>
#include <vector>

#include "formats/quantize.h"
#include "kernels/device/device_sources.h"
#include "kernels/device/test_gpu.h"
#include "kernels/gemm/device/prepack.h"
#include "kernels/gemm/device/test_tiles.h"

namespace nibble {
namespace {

// ---- the host's part ----------------------------------------------------------------------------

std::string refusal(std::span<const QuantizedMatrix> experts, RowOrder order = RowOrder::kPlain) {
  if (const auto shape = tiled_shape(experts, order); !shape.ok()) return shape.error().message;
  const auto factors = tiled_factors(experts, order);
  return factors.ok() ? "" : factors.error().message;
}

TEST(TiledFactors, OfNvfp4) {
  const TestMatrices matrices = random_matrices({.experts = 2, .rows = 4, .columns = 32}, 1);
  std::vector<QuantizedMatrix> experts = matrices.views();
  experts[0].segments = {{0, 0.5F}, {2, 0.25F}};
  experts[1].segments = {{0, 3.0F}};
  const auto factors = tiled_factors(experts, RowOrder::kGateUp);
  ASSERT_TRUE(factors.ok());
  // Times 2^7: what the kernels' placed bits lack.
  EXPECT_EQ(factors->alpha, (std::vector<float>{64, 32, 384, 384}));
  EXPECT_EQ(factors->shifts, (std::vector<int>{0, 0}));
  EXPECT_EQ(refusal(experts, RowOrder::kGateUp), "");
  EXPECT_EQ(refusal(experts, RowOrder::kPlain),
            "expert 0: rows 0 to 3 have several factors; they share one");
}

TEST(TiledFactors, OfMxfp4) {
  TestMatrices matrices = random_matrices({.rows = 3, .columns = 64, .mxfp4 = true}, 1);
  matrices.scales = {100, 90, 130, 254, 1, 2};
  // The block with scale 254 holds zeros, of both signs.
  for (std::size_t at = 48; at < 64; ++at) matrices.codes[at] = 0x80;
  const auto factors = tiled_factors(matrices.views(), RowOrder::kPlain);
  ASSERT_TRUE(factors.ok());
  EXPECT_EQ(factors->shifts, (std::vector<int>{4}));      // 130 -> 134
  EXPECT_EQ(factors->alpha, (std::vector<float>{4, 4}));  // 2^6 x 2^-4
}

TEST(TiledFactors, Refusals) {
  TestMatrices matrices = random_matrices({.experts = 2, .rows = 4, .columns = 32}, 1);
  EXPECT_EQ(refusal({}), "there are 0 experts; give 1 to 4096");
  matrices.scales[8 + 5] = 0xff;
  EXPECT_EQ(refusal(matrices.views()),
            "expert 1: the scale of row 2, columns from 16, is not a number");
  matrices.scales[8 + 5] = 0xfe;  // -448
  std::vector<QuantizedMatrix> experts = matrices.views();
  EXPECT_EQ(refusal(experts), "");
  experts[1].rows = 3;
  EXPECT_NE(refusal(experts), "");
  experts = matrices.views();
  experts[1].codes = experts[1].codes.first(3);
  EXPECT_NE(refusal(experts), "");
  experts = matrices.views();
  experts[0].segments = {{0, INFINITY}};
  EXPECT_EQ(refusal(experts), "expert 0: the factor inf of rows 0 to 3 is too large");
  TestMatrices odd = random_matrices({.rows = 3, .columns = 32}, 1);
  EXPECT_EQ(refusal(odd.views()), "");
  EXPECT_EQ(refusal(odd.views(), RowOrder::kGateUp),
            "gate and up have 3 rows together; both have the same number");
  TestMatrices mxfp4 = random_matrices({.rows = 2, .columns = 32, .mxfp4 = true}, 1);
  mxfp4.scales[1] = 255;
  EXPECT_NE(refusal(mxfp4.views()).find("row 1"), std::string::npos);
}

// ---- on a GPU -----------------------------------------------------------------------------------

// Every tile through dequantize(), as the products do it: rows and columns of the tile in order.
constexpr const char* kDequantizeTiles = R"(
#include "kernels/gemm/device/dequantize.cuh"
#include "kernels/gemm/device/weight_codes.h"

namespace nibble {

extern "C" __global__ void __launch_bounds__(128)
    dequantize_tiles(const uint8_t* tiles, uint32_t* out, int tile_bytes) {
  constexpr auto kFormat = TEST_MXFP4 ? WeightFormat::kMxfp4 : WeightFormat::kNvfp4;
  constexpr auto kElement = TEST_FP16 ? Element::kFp16 : Element::kBf16;
  const uint8_t* const tile = tiles + static_cast<int64_t>(blockIdx.x) * tile_bytes;
  const int lane = threadIdx.x;
  const int row = lane / 32 * 16 + lane % 32 / 4;
  const uint32_t upper = scale_pair<kFormat, kElement>(tile[scale_place(TEST_MXFP4, lane, false)]);
  const uint32_t lower = scale_pair<kFormat, kElement>(tile[scale_place(TEST_MXFP4, lane, true)]);
  for (int j = 0; j < 4; ++j) {
    uint32_t a[4];
    dequantize<kElement>(reinterpret_cast<const uint32_t*>(tile)[4 * lane + j], upper, lower, a);
    uint32_t* const to = out + static_cast<int64_t>(blockIdx.x) * 2048;
    const int pair = lane % 4 * 8 + 2 * j;
    to[row * 32 + pair] = a[0];
    to[(row + 8) * 32 + pair] = a[1];
    to[row * 32 + pair + 1] = a[2];
    to[(row + 8) * 32 + pair + 1] = a[3];
  }
}

}  // namespace nibble
)";

Result<cuda::Cubin> compile_dequantize_tiles(const std::string& arch, bool mxfp4, bool fp16) {
  return cuda::compile(
      {.name = "dequantize_test",
       .files = device_sources(),
       .main = kDequantizeTiles,
       .defines = {fmt::format("TEST_MXFP4={}", mxfp4), fmt::format("TEST_FP16={}", fp16)},
       .arch = arch});
}

// What the tests below run on a GPU compiles without one.
TEST(DeviceCompile, DequantizedTiles) {
  if (const auto compiler = cuda::compiler(); !compiler.ok()) {
    GTEST_SKIP() << compiler.error().message;
  }
  for (const bool mxfp4 : {false, true}) {
    for (const bool fp16 : {false, true}) {
      for (const char* const arch : {"sm_80", "sm_90a"}) {
        const auto cubin = compile_dequantize_tiles(arch, mxfp4, fp16);
        EXPECT_TRUE(cubin.ok()) << cubin.error().message;
      }
    }
  }
}

class CudaPrepack : public GpuTest {
 protected:
  // [tile][64 rows][64 columns]
  std::vector<std::uint16_t> dequantized_tiles(const TiledWeights& weights, bool fp16) {
    const bool mxfp4 = weights.shape().format == Format::kMxfp4;
    const cuda::Cubin cubin = value_of(compile_dequantize_tiles(gpu().info().arch(), mxfp4, fp16));
    const cuda::Module module = value_of(cuda::Module::load(gpu(), cubin));
    const cuda::Kernel kernel = value_of(module.kernel("dequantize_tiles"));
    const auto tile_bytes = static_cast<int>(weights.shape().layout().tile_bytes);
    const std::size_t tiles = weights.bytes() / static_cast<std::size_t>(tile_bytes);
    const auto out = GpuArray<std::uint16_t>::poisoned(tiles * 4096);
    check_ok(launch(kernel, {.grid = {static_cast<unsigned>(tiles)}, .block = {128}}, stream(),
                    weights.tiles(), out.address(), tile_bytes));
    check_ok(stream().synchronize());
    return out.read();
  }

  // The tiles' value is the matrix's over alpha, exactly; padding is zero.
  void expect_exact(const TestMatrices& matrices, const TiledWeights& weights, bool fp16) {
    const std::vector<std::uint16_t> got = dequantized_tiles(weights, fp16);
    const WeightTiles layout = weights.shape().layout();
    const std::int64_t of_expert = layout.blocks * layout.chunks;
    for (std::size_t at = 0; at < got.size(); ++at) {
      const auto place = static_cast<std::int64_t>(at);
      const std::int64_t tile = place / 4096;
      const std::int64_t expert = tile / of_expert;
      const std::int64_t row = matrix_row(matrices, tile / layout.chunks % layout.blocks,
                                          static_cast<int>(place / 64 % 64));
      const std::int64_t column = tile % layout.chunks * 64 + place % 64;
      double expected = 0;
      if (row >= 0 && column < matrices.columns) {
        const float alpha = weights.factors().alpha[static_cast<std::size_t>(2 * expert)];
        expected = matrices.value(expert, row, column) / static_cast<double>(alpha);
      }
      const float value = fp16 ? fp16_to_float(got[at]) : bf16_to_float(got[at]);
      ASSERT_EQ(static_cast<double>(value), expected) << row << " " << column;
    }
  }
};

TEST_F(CudaPrepack, EveryWeightIsExactOnTheDevice) {
  for (const bool mxfp4 : {false, true}) {
    for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
      for (const auto& [rows, columns] : {std::pair{64, 64}, {256, 192}, {74, 90}, {2, 2}}) {
        const TestMatrices matrices = random_matrices(
            {.experts = 3, .rows = rows, .columns = columns, .order = order, .mxfp4 = mxfp4}, 5);
        SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
        const TiledWeights weights = value_of(TiledWeights::pack(gpu(), matrices.views(), order));
        expect_exact(matrices, weights, false);
        if (!mxfp4) expect_exact(matrices, weights, true);
      }
    }
  }
}

TEST_F(CudaPrepack, Mxfp4InFp16IsExactWhereItsExponentsAllow) {
  TestMatrices matrices = random_matrices({.rows = 64, .columns = 128, .mxfp4 = true}, 5);
  // A weight is code x 2^(scale - 133), and fp16's smallest number is 2^-24 = 0.5 x 2^-23: with the
  // largest scale at 134, exact from 110 on.
  for (std::size_t at = 0; at < matrices.scales.size(); ++at) {
    matrices.scales[at] = static_cast<std::uint8_t>(120 - at % 25);
  }
  const TiledWeights weights =
      value_of(TiledWeights::pack(gpu(), matrices.views(), RowOrder::kPlain));
  expect_exact(matrices, weights, true);
}

TEST_F(CudaPrepack, UnpackIsTheInverse) {
  for (const bool mxfp4 : {false, true}) {
    for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
      TestMatrices matrices = random_matrices(
          {.experts = 3, .rows = 130, .columns = 208, .order = order, .mxfp4 = mxfp4}, 7);
      for (std::uint8_t& scale : matrices.scales) {
        if (!mxfp4) scale &= 0x7f;  // a sign moves to the codes
        if (scale == 0) scale = 1;
      }
      const TiledWeights weights = value_of(TiledWeights::pack(gpu(), matrices.views(), order));
      for (std::int64_t expert = 0; expert < 3; ++expert) {
        const TiledWeights::Canonical again = value_of(weights.unpack(gpu(), expert));
        const QuantizedMatrix view = matrices.view(expert);
        EXPECT_TRUE(std::equal(again.codes.begin(), again.codes.end(), view.codes.begin(),
                               view.codes.end()));
        EXPECT_TRUE(std::equal(again.scales.begin(), again.scales.end(), view.scales.begin(),
                               view.scales.end()));
      }
    }
  }
}

TEST_F(CudaPrepack, RandomWeightsDiffer) {
  const TiledShape shape{.experts = 2, .rows = 128, .columns = 128};
  const TiledWeights weights = value_of(TiledWeights::random(gpu(), shape, 0.5F, 3));
  const TiledWeights::Canonical first = value_of(weights.unpack(gpu(), 0));
  const TiledWeights::Canonical second = value_of(weights.unpack(gpu(), 1));
  EXPECT_NE(first.codes, second.codes);
  std::vector<int> counts(16, 0);
  for (const std::uint8_t byte : first.codes) ++counts[byte >> 4];
  // 8,192 / 16 = 512; five standard deviations of 22 are 110.
  for (const int count : counts) EXPECT_NEAR(count, 512, 110);
  for (const std::uint8_t scale : first.scales) EXPECT_EQ(scale & 0xf8, 0x38);
  EXPECT_EQ(weights.factors().alpha.front(), 64);
}

}  // namespace
}  // namespace nibble
