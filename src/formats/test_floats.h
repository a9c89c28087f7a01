// For tests: the floats that are no numbers of a matrix.
//
//   EXPECT_EQ(float_to_e4m3(kInf), 0x7e);
#pragma once

#include <limits>

namespace nibble {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace nibble
