#include "ledger/tile.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace nibble {

Result<TileShape> parse_tile(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& part : split(text, 'x')) {
    std::int64_t size = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), size);
    const bool whole = fault == std::errc{} && end == part.data() + part.size();
    if (!whole || size < 1 || size > 65536) {
      return usage_error(
          "tile \"{}\" is not MxN or MxNxK with sizes from 1 to 65536, as 128x256x128", text);
    }
    sizes.push_back(size);
  }
  if (sizes.size() == 2) sizes.push_back(128);
  if (sizes.size() != 3) {
    return usage_error("tile \"{}\" has {} sizes; give MxN or MxNxK, as 128x256x128", text,
                       sizes.size());
  }
  return TileShape{sizes[0], sizes[1], sizes[2]};
}

std::string to_string(const TileShape& tile) {
  return fmt::format("{}x{}x{}", tile.m, tile.n, tile.k);
}

double wave_coverage(const TileShape& tile, double m, double n, double sms, double groups) {
  const double tiles = groups * std::max(1.0, std::ceil(m / static_cast<double>(tile.m))) *
                       std::ceil(n / static_cast<double>(tile.n));
  return tiles / (std::ceil(tiles / sms) * sms);
}

double padding_efficiency(const TileShape& tile, double m) {
  const auto rows = static_cast<double>(tile.m);
  return m / (std::max(1.0, std::ceil(m / rows)) * rows);
}

std::string_view to_string(TileVerdict verdict) {
  switch (verdict) {
    case TileVerdict::kFits:
      return "fits";
    case TileVerdict::kTooFewStages:
      return "fewer than two stages fit";
    case TileVerdict::kTooLarge:
      return "too large";
    case TileVerdict::kIndivisible:
      return "not a tile of this kernel family";
  }
  return "";
}

}  // namespace nibble
