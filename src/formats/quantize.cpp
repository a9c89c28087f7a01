#include "formats/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "formats/codec.h"

namespace nibble {
namespace {

constexpr std::uint8_t kE4m3Nan = 0x7f;
constexpr std::uint8_t kE8m0Nan = 0xff;

// The largest magnitude; infinity when a value is NaN or infinite.
float block_amax(std::span<const float> x) {
  float amax = 0;
  for (const float value : x) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::infinity();
    amax = std::max(amax, std::abs(value));
  }
  return amax;
}

std::uint8_t nvfp4_scale(float amax, float factor) {
  const std::uint8_t scale = float_to_e4m3(amax / 6.0F / factor);
  return e4m3_to_float(scale) * factor == 0.0F ? float_to_e4m3(1.0F) : scale;
}

std::uint8_t mxfp4_scale(float amax) {
  // The exponent field is floor(log2) + 127; of subnormals it is 0, and they clamp anyway.
  return static_cast<std::uint8_t>(std::max(0, float_to_e8m0(amax) - 2));
}

// Both formats differ in the block and the scale alone. `scale_of` maps a block's finite amax to
// its scale's code, `step_of` that code to what divides the values.
struct BlockRule {
  std::int64_t block;
  std::uint8_t nan_scale;
};

template <class ScaleOf, class StepOf>
void quantize_row(std::span<const float> x, BlockRule rule, std::uint8_t* codes,
                  std::uint8_t* scales, ScaleOf scale_of, StepOf step_of) {
  NIBBLE_CHECK(x.size() % 2 == 0);
  const auto block = static_cast<std::size_t>(rule.block);
  for (std::size_t begin = 0; begin < x.size(); begin += block) {
    const std::span<const float> values = x.subspan(begin, std::min(block, x.size() - begin));
    std::uint8_t* const packed = codes + begin / 2;
    const float amax = block_amax(values);
    if (!std::isfinite(amax)) {
      *scales++ = rule.nan_scale;
      std::fill_n(packed, values.size() / 2, std::uint8_t{0});
      continue;
    }
    const std::uint8_t scale = scale_of(amax);
    const float step = step_of(scale);
    *scales++ = scale;
    for (std::size_t column = 0; column < values.size(); column += 2) {
      packed[column / 2] =
          pack_e2m1(float_to_e2m1(values[column] / step), float_to_e2m1(values[column + 1] / step));
    }
  }
}

// Checks the shape and makes room for codes of `code_bits` and for the scales of `block` columns.
QuantizedBytes room_for(Format format, std::span<const float> x, std::int64_t rows,
                        std::int64_t columns) {
  NIBBLE_CHECK(rows >= 0 && columns >= 0);
  const auto row_count = static_cast<std::size_t>(rows);
  const auto column_count = static_cast<std::size_t>(columns);
  NIBBLE_CHECK(columns == 0 || row_count <= x.size() / column_count);
  NIBBLE_CHECK(x.size() == row_count * column_count);
  QuantizedBytes bytes{.format = format, .rows = rows, .columns = columns};
  const StorageBytes sizes = storage_bytes(format, 1, static_cast<double>(columns));
  bytes.codes.resize(row_count * static_cast<std::size_t>(sizes.codes));
  bytes.scales.resize(row_count * static_cast<std::size_t>(sizes.scales));
  return bytes;
}

template <class QuantizeRow>
void quantize_rows(std::span<const float> x, QuantizedBytes& bytes, QuantizeRow quantize_one) {
  if (bytes.columns == 0) return;
  const auto columns = static_cast<std::size_t>(bytes.columns);
  const auto rows = static_cast<std::size_t>(bytes.rows);
  for (std::size_t row = 0; row < rows; ++row) {
    quantize_one(x.subspan(row * columns, columns),
                 bytes.codes.data() + row * (bytes.codes.size() / rows),
                 bytes.scales.data() + row * (bytes.scales.size() / rows));
  }
}

}  // namespace

QuantizedMatrix QuantizedBytes::view() const {
  QuantizedMatrix matrix{
      .format = format, .rows = rows, .columns = columns, .codes = codes, .scales = scales};
  if (format == Format::kNvfp4) matrix.segments = {{.row_begin = 0, .factor = factor}};
  return matrix;
}

float nvfp4_factor(std::span<const float> x) {
  float amax = 0;
  for (const float value : x) {
    if (std::isfinite(value)) amax = std::max(amax, std::abs(value));
  }
  const float factor = amax / kNvfp4Largest;
  return factor > 0 ? factor : 1.0F;
}

std::string_view factor_fault(float factor) {
  if (!std::isfinite(factor)) return "is not finite";
  if (factor <= 0) return "is not above 0";
  if (factor > 1e2F) return "is above 100, as a divisor that is taken for a multiplier would be";
  return "";
}

void quantize_nvfp4_row(std::span<const float> x, float factor, std::uint8_t* codes,
                        std::uint8_t* scales) {
  NIBBLE_CHECK(std::isfinite(factor) && factor > 0);
  quantize_row(
      x, {.block = kNvfp4Block, .nan_scale = kE4m3Nan}, codes, scales,
      [factor](float amax) { return nvfp4_scale(amax, factor); },
      [factor](std::uint8_t scale) { return e4m3_to_float(scale) * factor; });
}

QuantizedBytes quantize_nvfp4(std::span<const float> x, std::int64_t rows, std::int64_t columns,
                              std::optional<float> factor) {
  NIBBLE_CHECK(columns % 2 == 0);
  QuantizedBytes bytes = room_for(Format::kNvfp4, x, rows, columns);
  bytes.factor = factor ? *factor : nvfp4_factor(x);
  quantize_rows(x, bytes,
                [&](std::span<const float> row, std::uint8_t* codes, std::uint8_t* scales) {
                  quantize_nvfp4_row(row, bytes.factor, codes, scales);
                });
  return bytes;
}

void quantize_mxfp4_row(std::span<const float> x, std::uint8_t* codes, std::uint8_t* scales) {
  quantize_row(x, {.block = kMxfp4Block, .nan_scale = kE8m0Nan}, codes, scales, mxfp4_scale,
               e8m0_to_float);
}

QuantizedBytes quantize_mxfp4(std::span<const float> x, std::int64_t rows, std::int64_t columns) {
  NIBBLE_CHECK(columns % 2 == 0);
  QuantizedBytes bytes = room_for(Format::kMxfp4, x, rows, columns);
  quantize_rows(x, bytes, quantize_mxfp4_row);
  return bytes;
}

QuantizedBytes quantize_bf16(std::span<const float> x, std::int64_t rows, std::int64_t columns) {
  QuantizedBytes bytes = room_for(Format::kBf16, x, rows, columns);
  for (std::size_t index = 0; index < x.size(); ++index) {
    const std::uint16_t code = float_to_bf16(x[index]);
    bytes.codes[2 * index] = static_cast<std::uint8_t>(code & 0xffU);
    bytes.codes[2 * index + 1] = static_cast<std::uint8_t>(code >> 8);
  }
  return bytes;
}

}  // namespace nibble
