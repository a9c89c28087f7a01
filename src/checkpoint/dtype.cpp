#include "checkpoint/dtype.h"

#include <array>
#include <fmt/core.h>

#include "base/check.h"

namespace nibble {
namespace {

struct Entry {
  Dtype dtype;
  std::string_view name;
  int bits;
};

// In the order of the enumeration.
constexpr std::array kEntries = {Entry{Dtype::kBool, "BOOL", 8},
                                 Entry{Dtype::kF4, "F4", 4},
                                 Entry{Dtype::kF6E2M3, "F6_E2M3", 6},
                                 Entry{Dtype::kF6E3M2, "F6_E3M2", 6},
                                 Entry{Dtype::kU8, "U8", 8},
                                 Entry{Dtype::kI8, "I8", 8},
                                 Entry{Dtype::kF8E5M2, "F8_E5M2", 8},
                                 Entry{Dtype::kF8E4M3, "F8_E4M3", 8},
                                 Entry{Dtype::kF8E8M0, "F8_E8M0", 8},
                                 Entry{Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
                                 Entry{Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
                                 Entry{Dtype::kI16, "I16", 16},
                                 Entry{Dtype::kU16, "U16", 16},
                                 Entry{Dtype::kF16, "F16", 16},
                                 Entry{Dtype::kBf16, "BF16", 16},
                                 Entry{Dtype::kI32, "I32", 32},
                                 Entry{Dtype::kU32, "U32", 32},
                                 Entry{Dtype::kF32, "F32", 32},
                                 Entry{Dtype::kC64, "C64", 64},
                                 Entry{Dtype::kF64, "F64", 64},
                                 Entry{Dtype::kI64, "I64", 64},
                                 Entry{Dtype::kU64, "U64", 64}};

const Entry& entry(Dtype dtype) {
  const Entry& found = kEntries.at(static_cast<std::size_t>(dtype));
  NIBBLE_CHECK(found.dtype == dtype);
  return found;
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return entry(dtype).name;
}

std::optional<Dtype> dtype_from_string(std::string_view name) {
  for (const Entry& known : kEntries) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

int dtype_bits(Dtype dtype) {
  return entry(dtype).bits;
}

std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 56;  // times 64 bits still fits
  std::uint64_t elements = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (static_cast<std::uint64_t>(size) > kMostElements / elements) return std::nullopt;
    elements *= static_cast<std::uint64_t>(size);
  }
  if (empty) return 0;
  const std::uint64_t bits = elements * static_cast<std::uint64_t>(dtype_bits(dtype));
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace nibble
