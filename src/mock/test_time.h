// For tests: a millisecond.
//
//   EXPECT_EQ(chunk.due, 50 * kMs);
#pragma once

#include "base/clock.h"

namespace nibble::mock {

inline constexpr Nanoseconds kMs = 1'000'000;

}  // namespace nibble::mock
