// Element types of safetensors files.
//
//   dtype_from_string("F8_E4M3")              // Dtype::kF8E4M3
//   tensor_bytes(Dtype::kBf16, {128, 2048})   // 524,288; nothing when no file can hold it
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

enum class Dtype : std::uint8_t {
  kBool,
  kF4,      // two a byte
  kF6E2M3,  // four in three bytes
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64
};

std::string_view to_string(Dtype dtype);  // as the files spell it: "F8_E4M3"
std::optional<Dtype> dtype_from_string(std::string_view name);
int dtype_bits(Dtype dtype);

// Bytes of a tensor of this shape. Nothing when a dimension is negative, when 2^62 bytes would not
// hold it, or when it does not fill whole bytes.
std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::int64_t> shape);

// "[128, 2048]"; "[]" for a scalar.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace nibble
