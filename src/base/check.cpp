#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace nibble {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "nibble: internal error at %s:%d: %s does not hold; please report this\n",
               file, line, condition);
  std::abort();
}

}  // namespace nibble
