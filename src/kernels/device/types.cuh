// What device code stands on instead of the toolkit's headers: vectors of integers.
#pragma once

#include "formats/host_device.h"

namespace nibble {

struct alignas(16) Bits128 {
  uint32_t word[4];
};
struct alignas(8) Float2 {
  float value[2];
};
struct alignas(16) Float4 {
  float value[4];
};

}  // namespace nibble

#define NIBBLE_DEVICE __device__ __forceinline__
