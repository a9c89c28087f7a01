// Number formats through the C API, against values by hand.
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "capi/test_fp4.h"

namespace nibble::capi {
namespace {

TEST(CapiNumbers, Nvfp4ByHand) {
  // The largest is 6 and the factor 1: the scale is 6 / 6 = 1, in e4m3 0x38, and codes are values.
  std::vector<float> x = {6, -6, 0.5F, 1, -1.5F, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, -0.5F, 12, -1};
  const float given = 1;
  std::vector<std::uint8_t> codes(9, 0xee);
  std::vector<std::uint8_t> scales(2, 0xee);
  float factor = 0;
  ASSERT_CALL_OK(
      nibble_quantize_nvfp4(x.data(), 1, 18, &given, codes.data(), scales.data(), &factor));
  EXPECT_EQ(factor, 1);
  // The second block has 12 and -1: scale 2 (0x40), codes 6 and -0.5.
  EXPECT_EQ(scales, (std::vector<std::uint8_t>{0x38, 0x40}));
  EXPECT_EQ(codes,
            (std::vector<std::uint8_t>{0xf7, 0x21, 0x4b, 0x65, 0x00, 0x00, 0x00, 0x90, 0x97}));
}

TEST(CapiNumbers, TheFactorIsTheLargestOver2688) {
  const std::vector<float> x = {2688, 0};
  std::vector<std::uint8_t> codes(1);
  std::vector<std::uint8_t> scales(1);
  float factor = 0;
  ASSERT_CALL_OK(
      nibble_quantize_nvfp4(x.data(), 1, 2, nullptr, codes.data(), scales.data(), &factor));
  EXPECT_EQ(factor, 1);
  EXPECT_EQ(codes[0], 0x07);
  EXPECT_EQ(scales[0], 0x7e);  // 448
}

TEST(CapiNumbers, Mxfp4ByHand) {
  // The largest of each row is 6 and 3: 2^(2 - 2) and 2^(1 - 2), codes 127 and 126.
  const std::vector<float> x = {6, -1, 3, 0.5F};
  std::vector<std::uint8_t> codes(2);
  std::vector<std::uint8_t> scales(2);
  ASSERT_CALL_OK(nibble_quantize_mxfp4(x.data(), 2, 2, codes.data(), scales.data()));
  EXPECT_EQ(scales, (std::vector<std::uint8_t>{127, 126}));
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0xa7, 0x27}));  // 6, -1; 6, 1 of halves
}

TEST(CapiNumbers, SwizzledScalesAndBack) {
  EXPECT_EQ(nibble_swizzled_bytes(1, 1), 512);
  EXPECT_EQ(nibble_swizzled_bytes(129, 5), 2048);
  EXPECT_EQ(nibble_swizzled_bytes(0, 5), 0);
  EXPECT_EQ(nibble_swizzled_bytes(5, -1), 0);
  Random random(1);
  const Fp4Matrix matrix = random_fp4(random, {.rows = 131, .columns = 80});
  std::vector<std::uint8_t> tiles(2048, 0xee);
  ASSERT_CALL_OK(nibble_swizzle_scales(matrix.scales.data(), 131, 5, tiles.data()));
  EXPECT_EQ(tiles, swizzled(matrix, 0));  // its padding was written, with zeros
  std::vector<std::uint8_t> back(matrix.scales.size());
  ASSERT_CALL_OK(nibble_unswizzle_scales(tiles.data(), 131, 5, back.data()));
  EXPECT_EQ(back, matrix.scales);
}

TEST(CapiNumbers, WhatIsRefused) {
  float x[2] = {1, 2};
  std::uint8_t bytes[8] = {};
  const auto refused = [&](nibble_status status, const char* sentence) {
    EXPECT_EQ(status, NIBBLE_INVALID_ARGUMENT);
    EXPECT_STREQ(nibble_last_error(), sentence);
  };
  refused(nibble_quantize_nvfp4(nullptr, 1, 2, nullptr, bytes, bytes, nullptr), "x is null");
  refused(nibble_quantize_nvfp4(x, 1, 2, nullptr, nullptr, bytes, nullptr), "codes is null");
  refused(nibble_quantize_nvfp4(x, 1, 2, nullptr, bytes, nullptr, nullptr), "scales is null");
  refused(nibble_quantize_nvfp4(x, 1, 1, nullptr, bytes, bytes, nullptr),
          "columns is 1; give an even number");
  refused(nibble_quantize_nvfp4(x, 0, 2, nullptr, bytes, bytes, nullptr),
          "rows is 0; give 1 to 16777216");
  refused(nibble_quantize_mxfp4(x, 1, -2, bytes, bytes), "columns is -2; give 1 to 16777216");
  for (const float factor : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(nibble_quantize_nvfp4(x, 1, 2, &factor, bytes, bytes, nullptr),
              NIBBLE_INVALID_ARGUMENT);
  }
  refused(nibble_swizzle_scales(nullptr, 1, 1, bytes), "scales is null");
  refused(nibble_swizzle_scales(bytes, 1, 1, nullptr), "swizzled is null");
  refused(nibble_unswizzle_scales(nullptr, 1, 1, bytes), "swizzled is null");
  refused(nibble_unswizzle_scales(bytes, 1, 0, bytes), "columns is 0; give 1 to 16777216");
  const auto* const crooked = reinterpret_cast<const float*>(bytes + 1);
  EXPECT_EQ(nibble_quantize_mxfp4(crooked, 1, 2, bytes, bytes), NIBBLE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(nibble_last_error()).find("no multiple of 4 bytes"), std::string::npos);
}

}  // namespace
}  // namespace nibble::capi
