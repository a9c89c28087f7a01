#include "kernels/moe/vector_code.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace nibble {
namespace {

// Each needs those before it.
// clang-format off
#include "kernels/lanes/lanes_avx2.inc"
#include "kernels/lanes/exponential.inc"
#include "kernels/moe/vector_code.inc"
// clang-format on

}  // namespace

const VectorCode kAvx2Code = kCode;

}  // namespace nibble

#endif
