// The prepack kernels, run on the host (test_simt.h), against the layout's description read bit by
// bit.
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <vector>

#include "kernels/gemm/device/prepack.cuh"
#include "kernels/gemm/device/test_tiles.h"

namespace nibble {
namespace {

std::vector<std::uint8_t> prepacked(TestMatrices& matrices) {
  std::vector<std::uint8_t> nothing;
  const WeightTiles layout = matrices.params(nothing).layout();
  std::vector<std::uint8_t> tiles(
      static_cast<std::size_t>(matrices.experts * layout.expert_bytes()), 0xa5);
  const Prepack params = matrices.params(tiles);
  simt::launch(3, kPrepackThreads, [&] { prepack(params); });
  return tiles;
}

TEST(DevicePrepack, EveryWeightIsWhereTheLayoutSays) {
  for (const bool mxfp4 : {false, true}) {
    for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
      for (const auto& [rows, columns] : {std::pair{64, 64}, {256, 128}, {74, 90}, {2, 2}}) {
        TestMatrices matrices = random_matrices(
            {.experts = 3, .rows = rows, .columns = columns, .order = order, .mxfp4 = mxfp4}, 5);
        const std::vector<std::uint8_t> tiles = prepacked(matrices);
        SCOPED_TRACE(columns);
        expect_all_weights(matrices, tiles);
      }
    }
  }
}

TEST(DevicePrepack, EveryCodeWithEveryScale) {
  for (const bool mxfp4 : {false, true}) {
    // A row a scale; its codes are 0..15 and again.
    TestMatrices matrices{.rows = 256, .columns = 32, .mxfp4 = mxfp4, .shifts = {134 - 254}};
    for (int row = 0; row < 256; ++row) {
      for (int pair = 0; pair < 16; ++pair) {
        matrices.codes.push_back(pack_e2m1(static_cast<std::uint8_t>(2 * pair % 16),
                                           static_cast<std::uint8_t>((2 * pair + 1) % 16)));
      }
      const bool nan = mxfp4 ? row == 255 : row % 128 == 127;
      const auto scale = static_cast<std::uint8_t>(nan ? 8 : row);
      matrices.scales.insert(matrices.scales.end(), mxfp4 ? 1 : 2, scale);
    }
    expect_all_weights(matrices, prepacked(matrices));
  }
}

TEST(DevicePrepack, PaddingHasNoSignsAndNoScales) {
  TestMatrices matrices = random_matrices({.rows = 2, .columns = 2}, 6);
  const std::vector<std::uint8_t> tiles = prepacked(matrices);
  // Lane 0 has both rows and 2 of its 16 columns; all others have nothing.
  for (std::size_t at = 16; at < 2048; ++at) ASSERT_EQ(tiles[at], 0) << at;
  for (std::size_t at = 2050; at < 2304; ++at) ASSERT_EQ(tiles[at], 0) << at;
}

TEST(DevicePrepack, UnpackIsTheInverse) {
  for (const bool mxfp4 : {false, true}) {
    for (const RowOrder order : {RowOrder::kPlain, RowOrder::kGateUp}) {
      TestMatrices matrices = random_matrices(
          {.experts = 2, .rows = 70, .columns = 90, .order = order, .mxfp4 = mxfp4}, 7);
      for (std::uint8_t& scale : matrices.scales) {
        // Zero scales and signs are not kept as such.
        if (!mxfp4) scale &= 0x7f;
        if (scale == 0) scale = 1;
      }
      std::vector<std::uint8_t> tiles = prepacked(matrices);
      TestMatrices again = matrices;
      again.codes.assign(again.codes.size(), 0x5a);
      again.scales.assign(again.scales.size(), 0x5a);
      const Prepack params = again.params(tiles);
      simt::launch(2, kPrepackThreads, [&] { unpack(params); });
      EXPECT_EQ(again.codes, matrices.codes);
      EXPECT_EQ(again.scales, matrices.scales);
    }
  }
}

TEST(DevicePrepack, RandomWeightsFillWhatThereIs) {
  std::vector<std::uint8_t> codes(1001, 0);
  std::vector<std::uint8_t> scales(77, 0);
  const RandomWeights params{.codes = codes.data(),
                             .scales = scales.data(),
                             .code_bytes = 1000,
                             .scale_bytes = 76,
                             .seed = 3};
  simt::launch(1, kPrepackThreads, [&] { random_weights(params); });
  std::vector<int> counts(16, 0);
  for (std::size_t at = 0; at < 1000; ++at) ++counts[codes[at] & 15U];
  // 1000 / 16 = 62; five standard deviations of 7.7 are 38.
  for (const int count : counts) EXPECT_NEAR(count, 62, 38);
  for (std::size_t at = 0; at < 76; ++at) {
    EXPECT_GE(scales[at], 0x38);
    EXPECT_LE(scales[at], 0x3f);
  }
  EXPECT_EQ(codes.back() + scales.back(), 0);
}

}  // namespace
}  // namespace nibble
