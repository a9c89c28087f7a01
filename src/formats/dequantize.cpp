#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "formats/codec.h"
#include "formats/quantize.h"

namespace nibble {
namespace {

struct Layout {
  std::int64_t code_bytes;  // of one row
  std::int64_t scales;      // of one row
  std::int64_t block;       // columns; 0 without scales
};

std::optional<Layout> layout_of(Format format, std::int64_t columns) {
  const auto blocks = [columns](std::int64_t block) {
    return columns / block + (columns % block != 0);
  };
  switch (format) {
    case Format::kNvfp4:
      return Layout{columns / 2, blocks(kNvfp4Block), kNvfp4Block};
    case Format::kMxfp4:
      return Layout{columns / 2, blocks(kMxfp4Block), kMxfp4Block};
    case Format::kBf16:
      return Layout{2 * columns, 0, 0};
    default:
      return std::nullopt;
  }
}

// Whether `bytes` is rows * per_row, without overflow.
bool is_product(std::size_t bytes, std::int64_t rows, std::int64_t per_row) {
  if (rows == 0 || per_row == 0) return bytes == 0;
  const auto row_bytes = static_cast<std::size_t>(per_row);
  return bytes % row_bytes == 0 && bytes / row_bytes == static_cast<std::size_t>(rows);
}

Result<> check_segments(const QuantizedMatrix& matrix) {
  std::int64_t next = 0;
  for (std::size_t index = 0; index < matrix.segments.size(); ++index) {
    const std::int64_t begin = matrix.segments[index].row_begin;
    if ((index == 0 && begin != 0) || begin < next || (index > 0 && begin >= matrix.rows)) {
      return input_error(
          "segment {} of a matrix of {} rows begins at row {}; segments ascend from row 0", index,
          matrix.rows, begin);
    }
    next = begin + 1;
  }
  return {};
}

// Writes one row of `matrix`, whose factor is `factor`.
void dequantize_row(const QuantizedMatrix& matrix, const Layout& layout, std::int64_t row,
                    float factor, float* values) {
  const std::uint8_t* const codes = matrix.codes.data() + row * layout.code_bytes;
  if (matrix.format == Format::kBf16) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      const auto code = static_cast<std::uint16_t>(codes[2 * column] | codes[2 * column + 1] << 8);
      values[column] = bf16_to_float(code) * factor;
    }
    return;
  }
  const std::uint8_t* const scales = matrix.scales.data() + row * layout.scales;
  const auto scale_value = matrix.format == Format::kNvfp4 ? e4m3_to_float : e8m0_to_float;
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    const float scale = scale_value(scales[column / layout.block]);
    values[column] = e2m1_to_float(e2m1_at(codes, column)) * scale * factor;
  }
}

// Whether the block of MXFP4 that begins at `column` holds zeros alone, of either sign.
bool is_zero_block(const std::uint8_t* codes, std::int64_t column, std::int64_t columns) {
  const std::int64_t end = columns - column < kMxfp4Block ? columns : column + kMxfp4Block;
  for (std::int64_t at = column; at < end; ++at) {
    if ((e2m1_at(codes, at) & 7U) != 0) return false;
  }
  return true;
}

// The scales of an MXFP4 matrix by block, as its exponents k + 127; of zero blocks none.
struct BlockExponents {
  std::vector<std::optional<int>> of_block;  // [rows, blocks]
  int largest = 0;
  std::int64_t nan_scales = 0;
};

BlockExponents block_exponents(const QuantizedMatrix& matrix, const Layout& layout) {
  BlockExponents exponents;
  exponents.of_block.resize(matrix.scales.size());
  for (std::size_t index = 0; index < matrix.scales.size(); ++index) {
    const auto row = static_cast<std::int64_t>(index) / layout.scales;
    const auto block = static_cast<std::int64_t>(index) % layout.scales;
    const int code = matrix.scales[index];
    if (code == 255) ++exponents.nan_scales;
    const std::uint8_t* const codes = matrix.codes.data() + row * layout.code_bytes;
    if (code == 255 || is_zero_block(codes, block * kMxfp4Block, matrix.columns)) continue;
    exponents.of_block[index] = code;
    exponents.largest = std::max(exponents.largest, code);
  }
  return exponents;
}

// A block at the largest exponent takes the scale 2^8, the largest power of two in e4m3; the
// smallest is 2^-9.
constexpr int kLargestPower = 8;
constexpr int kSmallestPower = -9;
static_assert(e4m3_to_float(float_to_e4m3(256)) == 256 && e4m3_to_float(1) == 1.0F / 512);

}  // namespace

Result<> check_matrix(const QuantizedMatrix& matrix) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 2;
  if (matrix.rows < 0 || matrix.columns < 0 || matrix.columns > kMax) {
    return input_error("a matrix has {} rows and {} columns", matrix.rows, matrix.columns);
  }
  const std::optional<Layout> layout = layout_of(matrix.format, matrix.columns);
  if (!layout) {
    return input_error("a matrix is in {}; nvfp4, mxfp4 and bf16 are the formats of matrices",
                       to_string(matrix.format));
  }
  if (layout->block > 0 && matrix.columns % 2 != 0) {
    return input_error("a matrix in {} has {} columns; two share a byte, so their number is even",
                       to_string(matrix.format), matrix.columns);
  }
  if (!is_product(matrix.codes.size(), matrix.rows, layout->code_bytes) ||
      !is_product(matrix.scales.size(), matrix.rows, layout->scales)) {
    return input_error(
        "a matrix of {} rows and {} columns in {} has {} bytes of codes and {} scales; "
        "a row takes {} and {}",
        matrix.rows, matrix.columns, to_string(matrix.format), matrix.codes.size(),
        matrix.scales.size(), layout->code_bytes, layout->scales);
  }
  return check_segments(matrix);
}

std::vector<float> dequantize(const QuantizedMatrix& matrix) {
  NIBBLE_CHECK(check_matrix(matrix).ok());
  const Layout layout = *layout_of(matrix.format, matrix.columns);
  if (matrix.columns == 0) return {};
  std::vector<float> values(static_cast<std::size_t>(matrix.rows) *
                            static_cast<std::size_t>(matrix.columns));
  std::size_t next = 0;
  float factor = 1;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    if (next < matrix.segments.size() && matrix.segments[next].row_begin == row) {
      factor = matrix.segments[next++].factor;
    }
    dequantize_row(matrix, layout, row, factor, values.data() + row * matrix.columns);
  }
  return values;
}

Result<QuantizedBytes> mxfp4_to_nvfp4(const QuantizedMatrix& matrix) {
  NIBBLE_RETURN_IF_ERROR(check_matrix(matrix));
  if (matrix.format != Format::kMxfp4) {
    return input_error("a matrix is in {}; only mxfp4 converts to nvfp4 without loss",
                       to_string(matrix.format));
  }
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.factor != 1) return input_error("an mxfp4 matrix has a factor, {}", segment.factor);
  }
  const Layout layout = *layout_of(matrix.format, matrix.columns);
  const BlockExponents exponents = block_exponents(matrix, layout);
  if (exponents.nan_scales > 0) {
    return input_error("{} of {} blocks have the scale NaN", exponents.nan_scales,
                       matrix.scales.size());
  }
  // Without a block that is not zero any factor would do.
  const bool zero = std::ranges::none_of(exponents.of_block, [](auto e) { return e.has_value(); });
  const int factor_power = zero ? 0 : exponents.largest - 127 - kLargestPower;
  QuantizedBytes bytes{.format = Format::kNvfp4,
                       .rows = matrix.rows,
                       .columns = matrix.columns,
                       .codes = {matrix.codes.begin(), matrix.codes.end()},
                       .factor = std::ldexp(1.0F, factor_power)};
  if (const std::string_view fault = factor_fault(bytes.factor); !fault.empty()) {
    return input_error("the factor of the matrix in nvfp4 would be {}, which {}", bytes.factor,
                       fault);
  }
  // A block of 32 becomes two of 16, or one where the last holds no more than 16 columns.
  const std::int64_t halves = layout_of(Format::kNvfp4, matrix.columns)->scales;
  std::int64_t outside = 0;
  for (std::size_t index = 0; index < exponents.of_block.size(); ++index) {
    const std::optional<int> exponent = exponents.of_block[index];
    const int power = exponent ? *exponent - 127 - factor_power : 0;
    outside += power < kSmallestPower;
    const std::uint8_t scale =
        exponent ? float_to_e4m3(std::ldexp(1.0F, power)) : float_to_e4m3(1.0F);
    const std::int64_t half = static_cast<std::int64_t>(index) % layout.scales * 2;
    bytes.scales.insert(bytes.scales.end(), half + 1 < halves ? 2 : 1, scale);
  }
  if (outside > 0) {
    return input_error(
        "{} of {} blocks are more than 2^17 times smaller than the largest, beyond "
        "what nvfp4's e4m3 scales span; keep the matrix in mxfp4",
        outside, matrix.scales.size());
  }
  return bytes;
}

}  // namespace nibble
