#include "formats/format.h"

#include <cmath>
#include <iterator>

#include "base/check.h"

namespace nibble {
namespace {

struct FormatFacts {
  Format format;
  std::string_view name;
  double code_bits;
  double scale_bytes;  // of one block
  double block_rows;   // 0: no block scales
  double block_columns;
};

// In the order of the enum, so that the enum indexes it.
// - mxfp8, mxfp4: 32 elements share one e8m0 byte (OCP Microscaling Formats 1.0, section 5.2).
// - nvfp4: 16 elements share one e4m3 byte.
// - fp8-block128: 128x128 weights share one fp32 (DeepSeek-V3, weight_scale_inv).
// - int4-group128: 128 elements along K share one fp16, symmetric (AWQ and GPTQ checkpoints with
//   zero points add 4 bits a group, which this leaves out).
// - fp8 and int8 have per-tensor factors only.
constexpr FormatFacts kFacts[] = {
    {Format::kFp32, "fp32", 32, 0, 0, 0},
    {Format::kBf16, "bf16", 16, 0, 0, 0},
    {Format::kFp16, "fp16", 16, 0, 0, 0},
    {Format::kFp8, "fp8", 8, 0, 0, 0},
    {Format::kFp8Block128, "fp8-block128", 8, 4, 128, 128},
    {Format::kMxfp8, "mxfp8", 8, 1, 1, 32},
    {Format::kInt8, "int8", 8, 0, 0, 0},
    {Format::kInt4Group128, "int4-group128", 4, 2, 1, 128},
    {Format::kMxfp4, "mxfp4", 4, 1, 1, 32},
    {Format::kNvfp4, "nvfp4", 4, 1, 1, 16},
};

constexpr bool in_order() {
  for (std::size_t index = 0; index < std::size(kFacts); ++index) {
    if (static_cast<std::size_t>(kFacts[index].format) != index) return false;
  }
  return true;
}
static_assert(in_order(), "kFacts must list the formats in the order of the enum");

const FormatFacts& facts(Format format) {
  const auto index = static_cast<std::size_t>(format);
  NIBBLE_CHECK(index < std::size(kFacts));
  return kFacts[index];
}

struct PrecisionName {
  Precision precision;
  std::string_view name;
};

constexpr PrecisionName kPrecisionNames[] = {{Precision::kFp32, "fp32"},
                                             {Precision::kBf16, "bf16"},
                                             {Precision::kFp8, "fp8"},
                                             {Precision::kInt8, "int8"},
                                             {Precision::kFp4, "fp4"}};

// Formats that the 8-bit unit takes as they are. mxfp4 is among them only beside an 8-bit partner:
// PTX mma kind::mxf8f6f4 multiplies e2m1 by e4m3 with e8m0 scales; nvfp4's e4m3 scales are not its.
bool is_fp8(Format format) {
  return format == Format::kFp8 || format == Format::kFp8Block128 || format == Format::kMxfp8;
}

}  // namespace

std::string_view to_string(Format format) {
  return facts(format).name;
}

std::string_view to_string(Precision precision) {
  for (const PrecisionName& entry : kPrecisionNames) {
    if (entry.precision == precision) return entry.name;
  }
  NIBBLE_CHECK(false);
  return "";
}

std::optional<Format> format_from_string(std::string_view name) {
  for (const FormatFacts& entry : kFacts) {
    if (entry.name == name) return entry.format;
  }
  return std::nullopt;
}

std::optional<Precision> precision_from_string(std::string_view name) {
  for (const PrecisionName& entry : kPrecisionNames) {
    if (entry.name == name) return entry.precision;
  }
  return std::nullopt;
}

StorageBytes storage_bytes(Format format, double rows, double columns) {
  const FormatFacts& fact = facts(format);
  StorageBytes bytes{.codes = rows * columns * fact.code_bits / 8, .scales = 0};
  if (fact.block_columns > 0) {
    // One-row blocks follow the rows exactly, also an expected (fractional) number of them.
    const double down = fact.block_rows == 1 ? rows : std::ceil(rows / fact.block_rows);
    bytes.scales = down * std::ceil(columns / fact.block_columns) * fact.scale_bytes;
  }
  return bytes;
}

double code_bits(Format format) {
  return facts(format).code_bits;
}

double bits_per_element(Format format) {
  const FormatFacts& fact = facts(format);
  if (fact.block_columns == 0) return fact.code_bits;
  return fact.code_bits + 8 * fact.scale_bytes / (fact.block_rows * fact.block_columns);
}

Precision native_precision(Format weights, Format activations) {
  if (weights == Format::kFp32 || activations == Format::kFp32) return Precision::kFp32;
  if (weights == Format::kInt8 && activations == Format::kInt8) return Precision::kInt8;
  if (weights == activations && (weights == Format::kNvfp4 || weights == Format::kMxfp4)) {
    return Precision::kFp4;
  }
  const bool mixed = (weights == Format::kMxfp4 && is_fp8(activations)) ||
                     (activations == Format::kMxfp4 && is_fp8(weights));
  if (mixed || (is_fp8(weights) && is_fp8(activations))) return Precision::kFp8;
  return Precision::kBf16;
}

}  // namespace nibble
