// What grouped products with 4-bit weights have in common: formats of weights, and what becomes of
// the sums.
#pragma once

#include "formats/host_device.h"

namespace nibble {

enum class Epilogue : uint32_t { kPlain, kSwiGlu, kClampedSwiGlu };

enum class WeightFormat : uint32_t { kNvfp4, kMxfp4 };

}  // namespace nibble
