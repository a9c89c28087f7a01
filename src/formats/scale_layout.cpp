#include "formats/scale_layout.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace nibble {
namespace {

template <class Visit>
void for_each_scale(std::size_t scales, std::size_t tiles, int64_t rows, int64_t columns,
                    Visit visit) {
  NIBBLE_CHECK(rows >= 0 && columns >= 0);
  NIBBLE_CHECK(scales == static_cast<std::size_t>(rows * columns));
  NIBBLE_CHECK(tiles == static_cast<std::size_t>(swizzled_bytes(rows, columns)));
  std::size_t index = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      visit(index++, static_cast<std::size_t>(swizzled_offset(row, column, columns)));
    }
  }
}

}  // namespace

void swizzle_scales(std::span<const uint8_t> scales, int64_t rows, int64_t columns,
                    std::span<uint8_t> tiles) {
  std::ranges::fill(tiles, uint8_t{0});
  for_each_scale(scales.size(), tiles.size(), rows, columns,
                 [&](std::size_t index, std::size_t offset) { tiles[offset] = scales[index]; });
}

void unswizzle_scales(std::span<const uint8_t> tiles, int64_t rows, int64_t columns,
                      std::span<uint8_t> scales) {
  for_each_scale(scales.size(), tiles.size(), rows, columns,
                 [&](std::size_t index, std::size_t offset) { scales[index] = tiles[offset]; });
}

}  // namespace nibble
