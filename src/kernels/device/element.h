// The elements of rows that are not quantized, on host and device.
#pragma once

#include "formats/host_device.h"

namespace nibble {

enum class Element : uint32_t { kBf16, kFp16, kFp32 };

NIBBLE_HOST_DEVICE constexpr int bytes_of(Element element) {
  return element == Element::kFp32 ? 4 : 2;
}

}  // namespace nibble
