// Random weights that look like real ones, made as fast as memory is written: Gaussian values are
// quantized once to a pool of blocks, and matrices are drawn from the pool.
//
//   const QuantizedBytes expert = random_matrix(Format::kNvfp4, 2048, 6144, seed);
#pragma once

#include <cstdint>
#include <vector>

#include "base/stats.h"
#include "formats/quantize.h"

namespace nibble {

// Standard normal values.
std::vector<float> gaussian(Random& random, std::int64_t count);

// kNvfp4, kMxfp4 or kBf16; any two blocks of a row are independent.
QuantizedBytes random_matrix(Format format, std::int64_t rows, std::int64_t columns,
                             std::uint64_t seed);

}  // namespace nibble
