#include "kernels/attention/attention_code.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace nibble {
namespace {

// Each needs those before it.
// clang-format off
#include "kernels/lanes/lanes_avx2.inc"
#include "kernels/lanes/exponential.inc"
#include "kernels/attention/attention_code.inc"
// clang-format on

}  // namespace

const AttentionCode kAvx2Attention = kAttention;

}  // namespace nibble

#endif
