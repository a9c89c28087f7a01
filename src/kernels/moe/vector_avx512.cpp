#include "kernels/moe/vector_code.h"

#if defined(__x86_64__)

// The intrinsics' own header sets off this warning (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

namespace nibble {
namespace {

// Each needs those before it.
// clang-format off
#include "kernels/lanes/lanes_avx512.inc"
#include "kernels/lanes/exponential.inc"
#include "kernels/moe/vector_code.inc"
// clang-format on

}  // namespace

const VectorCode kAvx512Code = kCode;

}  // namespace nibble

#endif
