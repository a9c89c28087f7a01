// Number formats as the ledger sees them: how many bytes a weight costs, and which matrix unit
// multiplies it. Sources: NVFP4 block 16 with one e4m3 scale, MXFP4 block 32 with one e8m0 scale
// (OCP MX 1.0), DeepSeek FP8 with one fp32 scale for 128x128 weights.
//
//   storage_bytes(Format::kNvfp4, 2048, 6144).total()  // 2048*6144*(1/2 + 1/16) = 7,077,888
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble {

enum class Format {
  kFp32,
  kBf16,
  kFp16,
  kFp8,
  kFp8Block128,
  kMxfp8,
  kInt8,
  kInt4Group128,
  kMxfp4,
  kNvfp4
};

// The rate classes of matrix units. A machine states a dense peak for those that it has.
enum class Precision { kFp32, kBf16, kFp8, kInt8, kFp4 };

std::string_view to_string(Format format);        // "nvfp4", "fp8-block128", ...
std::string_view to_string(Precision precision);  // "fp4", ...
std::optional<Format> format_from_string(std::string_view name);
std::optional<Precision> precision_from_string(std::string_view name);

struct StorageBytes {
  double codes = 0;
  double scales = 0;
  constexpr double total() const { return codes + scales; }
};

// Bytes of a row-major matrix [rows, columns] whose blocks run along the columns (K). Per-tensor
// factors (one float) are not counted. Partial blocks cost a whole scale.
StorageBytes storage_bytes(Format format, double rows, double columns);

// Bits per element without and with the scales of whole blocks: nvfp4 4 and 4.5.
double code_bits(Format format);
double bits_per_element(Format format);

// The unit that multiplies weights of one format by activations of another natively; kBf16 when the
// weights must be widened first (W4A16).
Precision native_precision(Format weights, Format activations);

}  // namespace nibble
