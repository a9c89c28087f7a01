#include "kernels/moe/vector_code.h"

#include "base/check.h"

namespace nibble {

const VectorCode& vector_code(Isa isa) {
  NIBBLE_CHECK(is_usable(isa));
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return kAvx2Code;
  if (isa == Isa::kAvx512) return kAvx512Code;
#endif
  return kPortableCode;
}

}  // namespace nibble
