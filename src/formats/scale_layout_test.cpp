#include "formats/scale_layout.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace nibble {
namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// Whole tiles, partial ones on either side, and K = 48 (three scales).
constexpr Shape kShapes[] = {{128, 4}, {256, 8}, {1, 1}, {1, 3}, {33, 3}, {129, 5}, {300, 12}};

static_assert(swizzled_offset(0, 3, 4) == 3 && swizzled_offset(1, 0, 4) == 16);
static_assert(swizzled_position(16, 4) == ScalePosition{.row = 1, .column = 0});

TEST(ScaleLayout, PlacesOfOneTile) {
  // By hand from the formula: row 1 lies 16 bytes on, row 32 4 bytes, column 4 a whole tile.
  EXPECT_EQ(swizzled_offset(31, 0, 4), 31 * 16);
  EXPECT_EQ(swizzled_offset(32, 0, 4), 4);
  EXPECT_EQ(swizzled_offset(97, 2, 4), 16 + 12 + 2);
  EXPECT_EQ(swizzled_offset(127, 3, 4), 511);
  EXPECT_EQ(swizzled_offset(0, 4, 8), 512);
  EXPECT_EQ(swizzled_offset(128, 0, 8), 1024);
  EXPECT_EQ(swizzled_offset(128, 0, 5), 1024);  // five columns take two tiles as well
}

TEST(ScaleLayout, SizesArePadded) {
  EXPECT_EQ(swizzled_bytes(128, 4), 512);
  EXPECT_EQ(swizzled_bytes(1, 3), 512);
  EXPECT_EQ(swizzled_bytes(129, 5), 2 * 2 * 512);
  EXPECT_EQ(swizzled_bytes(0, 4), 0);
  EXPECT_EQ(swizzled_bytes(4, 0), 0);
}

TEST(ScaleLayout, IsABijectionAndTheInverseItsInverse) {
  for (const auto& [rows, columns] : kShapes) {
    const std::int64_t size = swizzled_bytes(rows, columns);
    std::vector<int> seen(static_cast<std::size_t>(size));
    for (std::int64_t row = 0; row < scale_tiles(rows, 128) * 128; ++row) {
      for (std::int64_t column = 0; column < scale_tiles(columns, 4) * 4; ++column) {
        const std::int64_t offset = swizzled_offset(row, column, columns);
        ASSERT_GE(offset, 0);
        ASSERT_LT(offset, size);
        ++seen[static_cast<std::size_t>(offset)];
        EXPECT_EQ(swizzled_position(offset, columns), (ScalePosition{row, column}));
      }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), size) << rows << " x " << columns;
  }
}

TEST(ScaleLayout, SwizzlingWritesThePaddingAndComesBack) {
  for (const auto& [rows, columns] : kShapes) {
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(rows * columns));
    std::iota(scales.begin(), scales.end(), std::uint8_t{1});
    std::ranges::replace(scales, std::uint8_t{0}, std::uint8_t{0x55});
    // 0x7f is NaN: what is left of it would be read as a scale.
    std::vector<std::uint8_t> tiles(static_cast<std::size_t>(swizzled_bytes(rows, columns)), 0x7f);
    swizzle_scales(scales, rows, columns, tiles);
    std::size_t padding = 0;
    for (std::int64_t offset = 0; offset < std::ssize(tiles); ++offset) {
      const auto [row, column] = swizzled_position(offset, columns);
      const std::uint8_t byte = tiles[static_cast<std::size_t>(offset)];
      if (row < rows && column < columns) {
        EXPECT_EQ(byte, scales[static_cast<std::size_t>(row * columns + column)]);
      } else {
        EXPECT_EQ(byte, 0) << row << ", " << column;
        ++padding;
      }
    }
    EXPECT_EQ(padding, tiles.size() - scales.size());
    std::vector<std::uint8_t> again(scales.size());
    unswizzle_scales(tiles, rows, columns, again);
    EXPECT_EQ(again, scales);
  }
}

TEST(ScaleLayout, NothingIsNothing) {
  swizzle_scales({}, 0, 4, {});
  unswizzle_scales({}, 4, 0, {});
}

}  // namespace
}  // namespace nibble
