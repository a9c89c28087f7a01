// Elements that stand one by one in a file, as fp32: bf16, fp16, fp32, e4m3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "checkpoint/dtype.h"
#include "formats/codec.h"

namespace nibble {

inline bool is_element_type(Dtype dtype) {
  return dtype == Dtype::kBf16 || dtype == Dtype::kF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF8E4M3;
}

// Element `index` of a little-endian array; the type is one of those above.
inline float element_at(Dtype dtype, std::span<const std::byte> bytes, std::size_t index) {
  if (dtype == Dtype::kF8E4M3) return e4m3_to_float(std::to_integer<std::uint8_t>(bytes[index]));
  if (dtype == Dtype::kF32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * index, 4);
    return value;
  }
  std::uint16_t code = 0;
  std::memcpy(&code, bytes.data() + 2 * index, 2);
  return dtype == Dtype::kBf16 ? bf16_to_float(code) : fp16_to_float(code);
}

}  // namespace nibble
