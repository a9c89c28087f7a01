#include "bench/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace nibble {
namespace {

// A power of two, so that a block is drawn with a mask; 64 Ki values cost a millisecond to
// quantize.
constexpr std::int64_t kPoolRows = 2048;
constexpr std::int64_t kPoolColumns = 32;  // whole blocks of either 4-bit format
constexpr double kDeviation = 0.02;        // of the weights of a large model

QuantizedBytes quantize(Format format, const std::vector<float>& x, std::int64_t rows,
                        std::int64_t columns) {
  if (format == Format::kBf16) return quantize_bf16(x, rows, columns);
  if (format == Format::kMxfp4) return quantize_mxfp4(x, rows, columns);
  NIBBLE_CHECK(format == Format::kNvfp4);
  return quantize_nvfp4(x, rows, columns);
}

// Fills `out`, rows of `row_bytes`, with runs of `pool` of up to `run` bytes, drawn alike for equal
// seeds: codes and scales of a block stay together.
void draw_runs(std::vector<std::uint8_t>& out, std::size_t row_bytes,
               const std::vector<std::uint8_t>& pool, std::size_t run, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t row = 0; row < out.size(); row += row_bytes) {
    for (std::size_t at = 0; at < row_bytes; at += run) {
      const std::size_t block = random.next() % static_cast<std::uint64_t>(kPoolRows);
      std::copy_n(pool.begin() + static_cast<std::ptrdiff_t>(block * run),
                  std::min(run, row_bytes - at),
                  out.begin() + static_cast<std::ptrdiff_t>(row + at));
    }
  }
}

}  // namespace

std::vector<float> gaussian(Random& random, std::int64_t count) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(count));
  while (static_cast<std::int64_t>(values.size()) < count) {
    // Box and Muller: two uniform values give two normal ones.
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    const double angle = 2 * std::numbers::pi * random.uniform();
    values.push_back(static_cast<float>(radius * std::cos(angle)));
    if (static_cast<std::int64_t>(values.size()) == count) break;
    values.push_back(static_cast<float>(radius * std::sin(angle)));
  }
  return values;
}

QuantizedBytes random_matrix(Format format, std::int64_t rows, std::int64_t columns,
                             std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x = gaussian(random, kPoolRows * kPoolColumns);
  for (float& value : x) value *= static_cast<float>(kDeviation);
  const QuantizedBytes pool = quantize(format, x, kPoolRows, kPoolColumns);
  const StorageBytes bytes = storage_bytes(format, 1, static_cast<double>(columns));
  const auto row_codes = static_cast<std::size_t>(bytes.codes);
  const auto row_scales = static_cast<std::size_t>(bytes.scales);
  QuantizedBytes matrix{.format = format, .rows = rows, .columns = columns, .factor = pool.factor};
  matrix.codes.resize(row_codes * static_cast<std::size_t>(rows));
  matrix.scales.resize(row_scales * static_cast<std::size_t>(rows));
  const std::uint64_t order = random.next();
  draw_runs(matrix.codes, row_codes, pool.codes, pool.codes.size() / kPoolRows, order);
  if (row_scales > 0) {
    draw_runs(matrix.scales, row_scales, pool.scales, pool.scales.size() / kPoolRows, order);
  }
  return matrix;
}

}  // namespace nibble
