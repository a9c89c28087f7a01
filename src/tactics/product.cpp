#include "tactics/product.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <vector>

#include "base/text.h"

namespace nibble {

std::string_view to_string(TacticFamily family) {
  return family == TacticFamily::kW4A4 ? "w4a4" : "w4a16";
}

std::string to_string(const TacticTile& tile) {
  return fmt::format("{}x{}x{}", tile.m, tile.n, tile.k);
}

Result<TacticTile> parse_tactic_tile(std::string_view text) {
  constexpr int kLargestSide = 4096;
  // CUTLASS counts K of block-scaled tiles in bytes: two FP4 values each.
  const bool in_bytes = text.ends_with('B');
  const std::string_view numbers = in_bytes ? text.substr(0, text.size() - 1) : text;
  std::vector<int> sizes;
  for (const std::string& part : split(numbers, 'x')) {
    int size = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), size);
    const bool whole = fault == std::errc{} && end == part.data() + part.size();
    if (whole && size >= 1 && size <= kLargestSide) sizes.push_back(size);
  }
  if (in_bytes && sizes.size() == 3) sizes[2] *= 2;
  if (sizes.size() != 3 || sizes[2] > kLargestSide ||
      std::count(text.begin(), text.end(), 'x') != 2) {
    return usage_error(
        "tile \"{}\" is not M x N x K with sides from 1 to {}, as 128x256x128, or "
        "as CUTLASS names it with K in bytes, 128x256x64B",
        printable(text), kLargestSide);
  }
  return TacticTile{sizes[0], sizes[1], sizes[2]};
}

}  // namespace nibble
