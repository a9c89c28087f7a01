#include "kernels/gemm/packed_activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "formats/codec.h"
#include "formats/quantize.h"
#include "kernels/gemm/layout.h"

namespace nibble {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What of a stored weight is not the weight (kCodeZero), times the activations of each block.
void write_values(const std::int32_t (&values)[kGroupColumns], Isa isa, ActivationGroup& group) {
  std::int8_t bytes[kGroupColumns];
  std::int32_t sums[2] = {};
  for (std::size_t at = 0; at < kBlockColumns; ++at) {
    bytes[at] = static_cast<std::int8_t>(values[at]);
    bytes[kBlockColumns + at] = static_cast<std::int8_t>(values[kBlockColumns + at]);
    sums[0] += values[at];
    sums[1] += values[kBlockColumns + at];
  }
  const std::int32_t first = -kCodeZero * sums[0];
  const std::int32_t second = -kCodeZero * sums[1];
  if (isa == Isa::kAvx512) {  // columns in their order
    std::memcpy(group.values, bytes, kGroupColumns);
    group.correction[0] = first;
    group.correction[1] = second;
    return;
  }
  for (std::size_t step = 0; step < kSteps; ++step) {  // two columns of each block in turn
    std::memcpy(group.values + 4 * step, bytes + 2 * step, 2);
    std::memcpy(group.values + 4 * step + 2, bytes + kBlockColumns + 2 * step, 2);
  }
  const std::uint32_t lanes =
      (static_cast<std::uint32_t>(first) & 0xffffU) | static_cast<std::uint32_t>(second) << 16;
  group.correction[0] = static_cast<std::int32_t>(lanes);
  group.correction[1] = 0;
}

// The groups that share one scale.
void write_groups(const std::int32_t (&values)[kScaleColumns], float scale, Isa isa,
                  ActivationGroup* groups) {
  for (int at = 0; at < kScaleGroups; ++at) {
    std::int32_t of_group[kGroupColumns];
    std::copy_n(values + at * kGroupColumns, kGroupColumns, of_group);
    write_values(of_group, isa, groups[at]);
    groups[at].scale[0] = groups[at].scale[1] = scale;
  }
}

// The largest magnitude; NaN when a value is not finite. As integers, which order as magnitudes do,
// so that the compiler may look at four at a time.
float largest_magnitude(std::span<const float> x) {
  std::uint32_t largest = 0;
  for (const float value : x) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  }
  return largest < 0x7f800000U ? std::bit_cast<float>(largest) : kNaN;
}

// To the nearest whole number, ties to even, for |x| < 2^22: the sum has no bits behind the point.
std::int32_t round_whole(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23
  return static_cast<std::int32_t>((x + kShift) - kShift);
}

// The groups of one scale of int8: q = x / scale to nearest, scale = largest / 127.
void quantize_int8(const float* x, Isa isa, ActivationGroup* groups) {
#if defined(__x86_64__)
  if (isa != Isa::kPortable && quantize_int8_avx2(x, isa, groups)) return;
#endif
  const float largest = largest_magnitude({x, kScaleColumns});
  std::int32_t values[kScaleColumns] = {};
  float scale = std::isnan(largest) ? kNaN : 0.0F;
  if (largest >= kLeastInt8) {
    scale = largest / 127.0F;
    const float inverse = 127.0F / largest;
    for (std::size_t at = 0; at < kScaleColumns; ++at) values[at] = round_whole(x[at] * inverse);
  }
  write_groups(values, scale, isa, groups);
}

// float_to_bf16 for what is finite, without a branch.
float round_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

// The unit in which the largest of a group is a whole number that two signed bytes can say: at most
// 127 * 256 + 127. bf16 takes 14 bits, because its largest number of 15 is 127 * 256 + 128; fp32
// takes 15 where the largest allows it.
int unit_exponent(float largest, bool to_bf16) {
  constexpr float kMostWhole = 127 * 256 + 127;
  const int exponent = std::ilogb(largest) - 14;
  const bool fits = std::ldexp(largest, -exponent) < kMostWhole;
  return to_bf16 || !fits ? exponent + 1 : exponent;
}

// The groups of one scale as whole numbers in units of a power of two, q = 256 high + low. A bf16
// has 8 significant bits: what is within 2^-6 of the largest is exact.
void quantize_halves(const float* x, bool to_bf16, Isa isa, ActivationGroup* high,
                     ActivationGroup* low) {
#if defined(__x86_64__)
  if (isa != Isa::kPortable && quantize_halves_avx2(x, to_bf16, isa, high, low)) return;
#endif
  constexpr int kSmallestExponent = -100;  // below, the unit would not be a normal fp32
  float rounded[kScaleColumns];
  for (std::size_t at = 0; at < kScaleColumns; ++at) {
    rounded[at] = to_bf16 ? round_to_bf16(x[at]) : x[at];
  }
  // Rounding may have made an infinity of a large value, or a number of a NaN.
  const float largest =
      std::isnan(largest_magnitude({x, kScaleColumns})) ? kNaN : largest_magnitude(rounded);
  std::int32_t highs[kScaleColumns] = {};
  std::int32_t lows[kScaleColumns] = {};
  float unit = std::isnan(largest) ? kNaN : 0.0F;
  if (largest > 0 && std::ilogb(largest) >= kSmallestExponent) {
    const int exponent = unit_exponent(largest, to_bf16);
    unit = std::ldexp(1.0F, exponent);
    const float inverse = std::ldexp(1.0F, -exponent);
    for (std::size_t at = 0; at < kScaleColumns; ++at) {
      const std::int32_t whole = round_whole(rounded[at] * inverse);
      highs[at] = (whole + 128) >> 8;
      lows[at] = whole - 256 * highs[at];
    }
  }
  write_groups(highs, 256 * unit, isa, high);
  write_groups(lows, unit, isa, low);
}

// Two groups of NVFP4: codes in halves, so that the scales are of halves too.
void quantize_nvfp4(const float* x, float factor, Isa isa, ActivationGroup* groups) {
  std::uint8_t codes[kScaleColumns / 2] = {};
  std::uint8_t scales[kScaleColumns / kBlockColumns] = {};
  quantize_nvfp4_row({x, kScaleColumns}, factor, codes, scales);
  std::int32_t values[kScaleColumns];
  for (int at = 0; at < kScaleColumns; ++at) {
    const std::uint8_t byte = codes[at / 2];
    const auto code = static_cast<std::uint8_t>(at % 2 == 0 ? byte & 15 : byte >> 4);
    values[at] = static_cast<std::int32_t>(2 * e2m1_to_float(code));
  }
  write_groups(values, 0, isa, groups);
  for (int block = 0; block < kScaleColumns / kBlockColumns; ++block) {
    const std::span of_group(x + block / 2 * kGroupColumns, kGroupColumns);
    const bool finite = !std::isnan(largest_magnitude(of_group));
    groups[block / 2].scale[block % 2] = finite ? 0.5F * e4m3_to_float(scales[block]) : kNaN;
  }
}

}  // namespace

Result<PackedActivations> PackedActivations::make(std::int64_t most_rows, std::int64_t columns,
                                                  Format format, Isa isa, Format weights) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (most_rows < 0 || most_rows > kMost || columns < 1 || columns > kMost) {
    return input_error("activations of {} x {} are out of range: at most {} rows, 1 to {} columns",
                       most_rows, columns, kMost, kMost);
  }
  const bool wide = format == Format::kBf16 || format == Format::kFp32;
  const bool narrow = format == Format::kInt8 || format == Format::kNvfp4;
  if (!wide && (!narrow || weights == Format::kBf16)) {
    return input_error("{} weights x {} activations are not supported; choose fp32{}",
                       to_string(weights), to_string(format),
                       weights == Format::kBf16 ? " or bf16" : ", bf16, int8 or nvfp4");
  }
  PackedActivations packed;
  packed.format_ = format;
  packed.weights_ = weights;
  packed.isa_ = isa;
  packed.most_rows_ = most_rows;
  packed.columns_ = columns;
  const std::int64_t row_bytes = weights == Format::kBf16
                                     ? columns * static_cast<std::int64_t>(sizeof(float))
                                     : stream_stride(columns) *
                                           static_cast<std::int64_t>(sizeof(ActivationGroup)) *
                                           GemmAccess::streams_per_row(packed);
  NIBBLE_ASSIGN_OR_RETURN(packed.memory_,
                          HugeBuffer::allocate(static_cast<std::size_t>(most_rows * row_bytes)));
  if (format == Format::kNvfp4) {
    packed.row_factors_.assign(static_cast<std::size_t>(most_rows), 1.0F);
  }
  return packed;
}

void PackedActivations::quantize(std::span<const float> x, ThreadPool& pool,
                                 std::optional<float> input_scale) {
  const auto columns = static_cast<std::size_t>(columns_);
  NIBBLE_CHECK(x.size() % columns == 0);
  begin(static_cast<std::int64_t>(x.size() / columns));
  if (rows_ == 0) return;
  // Rows are cut so that a single one keeps all threads busy too.
  constexpr std::int64_t kPieceGroups = 32;  // even
  const std::int64_t pieces = (groups_of(columns_) + kPieceGroups - 1) / kPieceGroups;
  const double ns = static_cast<double>(x.size()) * value_ns();
  if (format_ == Format::kNvfp4) {
    WorkQueue rows(rows_);
    pool.run_for(ns, [&](int) {
      while (const auto row = rows.next()) set_factor(x, *row, input_scale);
    });
  }
  WorkQueue queue(rows_ * pieces);
  pool.run_for(ns, [&](int) {
    while (const auto unit = queue.next()) {
      const std::int64_t row = *unit / pieces;
      const std::int64_t first = *unit % pieces * kPieceGroups;
      const std::int64_t last = std::min(first + kPieceGroups, groups_of(columns_));
      quantize_groups(x.data() + row * columns_, row, first, last);
    }
  });
}

void PackedActivations::begin(std::int64_t rows) {
  NIBBLE_CHECK(rows >= 0 && rows <= most_rows_);
  rows_ = rows;
}

void PackedActivations::quantize_row(std::span<const float> x, std::int64_t row,
                                     std::optional<float> input_scale) {
  NIBBLE_CHECK(static_cast<std::int64_t>(x.size()) == rows_ * columns_ && row < rows_);
  if (format_ == Format::kNvfp4) set_factor(x, row, input_scale);
  quantize_groups(x.data() + row * columns_, row, 0, groups_of(columns_));
}

void PackedActivations::set_factor(std::span<const float> x, std::int64_t row,
                                   std::optional<float> input_scale) {
  const auto columns = static_cast<std::size_t>(columns_);
  const auto at = static_cast<std::size_t>(row);
  row_factors_[at] = input_scale ? *input_scale : nvfp4_factor(x.subspan(at * columns, columns));
}

double PackedActivations::value_ns() const {
  if (weights_ == Format::kBf16) return 0.2;
  return format_ == Format::kNvfp4 ? 4 : 0.6;
}

void PackedActivations::quantize_groups(const float* x, std::int64_t row, std::int64_t first,
                                        std::int64_t last) {
  if (weights_ == Format::kBf16) {
    auto* const rounded = reinterpret_cast<float*>(memory_.data()) + row * columns_;
    const std::int64_t end = std::min(last * kGroupColumns, columns_);
    const std::int64_t begin = first * kGroupColumns;
    if (format_ != Format::kBf16) std::copy_n(x + begin, end - begin, rounded + begin);
    for (std::int64_t at = begin; format_ == Format::kBf16 && at < end; ++at) {
      rounded[at] = bf16_to_float(float_to_bf16(x[at]));
    }
    return;
  }
  const int streams = GemmAccess::streams_per_row(*this);
  auto* const groups =
      reinterpret_cast<ActivationGroup*>(memory_.data()) + row * streams * stream_stride(columns_);
  for (std::int64_t at = first; at < last; at += kScaleGroups) {
    const float* values = x + at * kGroupColumns;
    const std::int64_t left = columns_ - at * kGroupColumns;
    float padded[kScaleColumns];
    if (left < kScaleColumns) {
      std::fill(std::copy_n(values, left, padded), std::end(padded), 0.0F);
      values = padded;
    }
    if (format_ == Format::kInt8) {
      quantize_int8(values, isa_, groups + at);
    } else if (format_ == Format::kNvfp4) {
      quantize_nvfp4(values, row_factors_[static_cast<std::size_t>(row)], isa_, groups + at);
    } else {
      quantize_halves(values, format_ == Format::kBf16, isa_, groups + at,
                      groups + at + stream_stride(columns_));
    }
  }
}

}  // namespace nibble
