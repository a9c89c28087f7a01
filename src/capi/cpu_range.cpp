#include "capi/cpu_range.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "capi/arguments.h"
#include "formats/quantize.h"

namespace nibble::capi {
namespace {

// As of kernels/gemm/layout.h, which is that folder's alone. The tests multiply at each end of what
// follows from it.
constexpr int kScaleShift = 10;  // of a row's largest scale: kScaleExponents
constexpr double kMostWeight = 12.0 * (15 << kScaleShift);
static_assert(2 * kMostWeight * static_cast<double>(kMostSide) * static_cast<double>(kMostHeld) <
                  0.75 * static_cast<double>(FLT_MAX),
              "sums stay finite, with a quarter for what rounding adds to them");

constexpr std::uint32_t kInfinityBits = 0x7f800000U;

std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// As integers, which order as magnitudes do.
std::uint32_t largest_bits_of(std::span<const float> x) {
  std::uint32_t largest = 0;
  for (const float value : x) largest = std::max(largest, magnitude_bits(value));
  return largest;
}

// ---- Weights ------------------------------------------------------------------------------------

// The exponent e of a scale m * 2^e, m < 16 whole, as kernels/gemm/packed_weights.cpp takes it
// apart; nullopt for 0.
std::optional<int> exponent_of(Format format, std::uint8_t scale) {
  constexpr int kBehindThePoint = 3;
  if (format == Format::kMxfp4) return scale - 127 - kBehindThePoint;
  if ((scale & 0x7f) == 0) return std::nullopt;
  return std::max((scale >> 3) & 15, 1) - 7 - kBehindThePoint;
}

struct Exponents {
  std::optional<int> largest;  // of all scales: the row's unit follows from it
  std::optional<int> least;    // of those whose codes are looked at, and are not all zero
};

struct RowOfCodes {
  Format format;
  std::int64_t columns;
  std::span<const std::uint8_t> codes;
  std::span<const std::uint8_t> scales;

  RowOfCodes(const QuantizedMatrix& matrix, std::int64_t row)
      : format(matrix.format), columns(matrix.columns) {
    const auto blocks = static_cast<std::size_t>((columns + block() - 1) / block());
    const auto bytes = static_cast<std::size_t>(columns / 2);
    const auto at = static_cast<std::size_t>(row);
    codes = matrix.codes.subspan(at * bytes, bytes);
    scales = matrix.scales.subspan(at * blocks, blocks);
  }
  std::int64_t block() const { return format == Format::kMxfp4 ? kMxfp4Block : kNvfp4Block; }
  bool is_zero(std::size_t block_at) const {
    constexpr std::uint8_t kMagnitudes = 0x77;  // of both codes
    const auto bytes = static_cast<std::size_t>(block() / 2);
    const std::size_t begin = block_at * bytes;
    const auto of_block = codes.subspan(begin, std::min(bytes, codes.size() - begin));
    return std::all_of(of_block.begin(), of_block.end(),
                       [](std::uint8_t byte) { return (byte & kMagnitudes) == 0; });
  }
  // Codes take longest to look at, and few rows need it.
  Exponents exponents(bool with_codes) const {
    Exponents found;
    for (std::size_t at = 0; at < scales.size(); ++at) {
      const std::optional<int> exponent = exponent_of(format, scales[at]);
      if (!exponent) continue;
      found.largest = std::max(found.largest.value_or(*exponent), *exponent);
      if (with_codes && is_zero(at)) continue;
      found.least = std::min(found.least.value_or(*exponent), *exponent);
    }
    return found;
  }
};

// What the row's sums are multiplied by: of codes in halves, and scales in units of 2^-10 of the
// largest's exponent (kernels/gemm/packed_weights.cpp, row_exponent() and pack_row()).
int unit_of(const Exponents& exponents) {
  return exponents.largest.value_or(0) - kScaleShift - 1;
}
bool is_fp32(double value) {
  return std::abs(value) <= static_cast<double>(FLT_MAX) &&
         static_cast<double>(static_cast<float>(value)) == value;
}
bool row_is_held(const Exponents& exponents, float factor) {
  const bool any = exponents.least.has_value();
  const double held = std::ldexp(static_cast<double>(factor), unit_of(exponents));
  // Zeros take any factor that is finite.
  if (!any) return std::abs(held) <= static_cast<double>(FLT_MAX);
  return is_fp32(held) && *exponents.largest - *exponents.least <= kMostSpread;
}

Result<> check_row_held(std::string_view name, std::int64_t expert, const RowOfCodes& codes,
                        std::int64_t row, float factor) {
  if (row_is_held(codes.exponents(false), factor)) return {};
  const Exponents exponents = codes.exponents(true);
  if (row_is_held(exponents, factor)) return {};
  constexpr int kBehindThePoint = 3;
  if (exponents.least && *exponents.largest - *exponents.least > kMostSpread) {
    return input_error(
        "{} of expert {}, row {} has scales from 2^{} to 2^{}, and the CPU holds 2^{} within a "
        "row; use a GPU, or mend the checkpoint",
        name, expert, row, *exponents.least + kBehindThePoint, *exponents.largest + kBehindThePoint,
        kMostSpread);
  }
  return input_error(
      "{} of expert {}, row {} has the factor {} and scales to 2^{}, and the CPU multiplies by the "
      "factor times 2^{}, which fp32 does not hold; move a power of two from one side of the "
      "product to the other",
      name, expert, row, factor, exponents.largest.value_or(0) + kBehindThePoint,
      unit_of(exponents));
}

// NVFP4's exponents are few: with a factor of ordinary size every row is held, and need not be
// looked at.
bool holds_all_rows(const QuantizedMatrix& matrix, float factor) {
  if (matrix.format != Format::kNvfp4) return false;
  const std::optional<int> least = exponent_of(matrix.format, 0x01);
  const std::optional<int> largest = exponent_of(matrix.format, 0x7e);
  return is_fp32(std::ldexp(static_cast<double>(factor), *least - kScaleShift - 1)) &&
         is_fp32(std::ldexp(static_cast<double>(factor), *largest - kScaleShift - 1));
}

}  // namespace

std::optional<Beyond> beyond_range(std::span<const float> x, std::int64_t columns,
                                   std::int64_t together) {
  const std::uint32_t least = magnitude_bits(kLeastHeld);
  const std::uint32_t most = magnitude_bits(kMostHeld);
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t first = 0; first < columns; first += together) {
      const auto neighbours =
          x.subspan(static_cast<std::size_t>(row * columns + first),
                    static_cast<std::size_t>(std::min(together, columns - first)));
      const std::uint32_t largest = largest_bits_of(neighbours);
      if (largest == 0 || (largest >= least && largest <= most)) continue;
      const auto at = std::find_if(neighbours.begin(), neighbours.end(),
                                   [&](float value) { return magnitude_bits(value) == largest; });
      return Beyond{row, first + (at - neighbours.begin()), *at, together};
    }
  }
  return std::nullopt;
}

std::string beyond_sentence(std::string_view where, const Beyond& beyond) {
  const std::uint32_t bits = magnitude_bits(beyond.value);
  if (bits >= kInfinityBits) {
    return fmt::format("{} is {}; the CPU multiplies finite numbers", where, beyond.value);
  }
  if (beyond.value > kMostHeld || beyond.value < -kMostHeld) {
    return fmt::format("{} is {}; the CPU takes magnitudes to 2^85 ({})", where, beyond.value,
                       kMostHeld);
  }
  return fmt::format(
      "{} is {}, the largest of its {} neighbours; the CPU takes zeros there, or a largest of "
      "2^-100 ({}) or more",
      where, beyond.value, beyond.together, kLeastHeld);
}

std::optional<Beyond> not_finite(std::span<const float> x, std::int64_t columns) {
  if (largest_bits_of(x) < kInfinityBits) return std::nullopt;
  const auto found = std::find_if(
      x.begin(), x.end(), [](float value) { return magnitude_bits(value) >= kInfinityBits; });
  const std::int64_t at = found - x.begin();
  return Beyond{at / columns, at % columns, *found, 1};
}

Result<> check_finite(std::string_view name, std::span<const float> x, std::int64_t columns) {
  const auto wrong = not_finite(x, columns);
  if (!wrong) return {};
  return input_error("{}[{}, {}] is {}; give finite numbers", name, wrong->row, wrong->column,
                     wrong->value);
}

Result<> check_weights_held(std::string_view name, std::span<const QuantizedMatrix> experts) {
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    const QuantizedMatrix& matrix = experts[expert];
    for (std::size_t at = 0; at < matrix.segments.size(); ++at) {
      const float factor = matrix.segments[at].factor;
      if (holds_all_rows(matrix, factor)) continue;
      const std::int64_t end =
          at + 1 < matrix.segments.size() ? matrix.segments[at + 1].row_begin : matrix.rows;
      for (std::int64_t row = matrix.segments[at].row_begin; row < end; ++row) {
        NIBBLE_RETURN_IF_ERROR(check_row_held(name, static_cast<std::int64_t>(expert),
                                              RowOfCodes(matrix, row), row, factor));
      }
    }
  }
  return {};
}

Result<> check_input_scales_held(std::string_view name, std::span<const QuantizedMatrix> experts) {
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    const std::optional<float> scale = experts[expert].input_scale;
    if (!scale || *scale >= kLeastInputScale) continue;
    return input_error("{} of expert {} is {}; the CPU takes 2^-112 ({}) or more", name, expert,
                       *scale, kLeastInputScale);
  }
  return {};
}

bool is_held_exactly(std::span<const float> row) {
  // The unit is 2^(e - 13) at most, where the largest is 2^e and more.
  constexpr int kBits = 13;
  for (std::size_t first = 0; first < row.size(); first += kUnitColumns) {
    const auto neighbours =
        row.subspan(first, std::min<std::size_t>(kUnitColumns, row.size() - first));
    const auto largest = std::bit_cast<float>(largest_bits_of(neighbours));
    if (largest == 0) continue;
    const double units = std::ldexp(1.0, kBits - std::ilogb(largest));
    for (const float value : neighbours) {
      const double whole = static_cast<double>(value) * units;
      if (whole != static_cast<double>(static_cast<std::int32_t>(whole))) return false;
    }
  }
  return true;
}

}  // namespace nibble::capi
