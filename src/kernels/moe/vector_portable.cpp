#include <bit>
#include <cmath>

#include "kernels/moe/vector_code.h"

namespace nibble {
namespace {

// Each needs those before it.
// clang-format off
#include "kernels/lanes/lanes_portable.inc"
#include "kernels/lanes/exponential.inc"
#include "kernels/moe/vector_code.inc"
// clang-format on

}  // namespace

const VectorCode kPortableCode = kCode;

}  // namespace nibble
