#include <bit>
#include <cmath>

#include "kernels/attention/attention_code.h"

namespace nibble {
namespace {

// Each needs those before it.
// clang-format off
#include "kernels/lanes/lanes_portable.inc"
#include "kernels/lanes/exponential.inc"
#include "kernels/attention/attention_code.inc"
// clang-format on

}  // namespace

const AttentionCode kPortableAttention = kAttention;

}  // namespace nibble
