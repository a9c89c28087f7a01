// What lets one header serve host C++, nvcc and NVRTC: the function qualifiers, fixed-width
// integers without a standard header (NVRTC has none), and the division that both sides need most.
//
//   NIBBLE_HOST_DEVICE constexpr uint32_t twice(uint32_t x) { return 2 * x; }
#pragma once

#ifdef __CUDACC__  // nvcc and NVRTC define it
#define NIBBLE_HOST_DEVICE __host__ __device__
#else
#define NIBBLE_HOST_DEVICE
#endif

#ifdef __CUDACC_RTC__
namespace nibble {
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using int32_t = int;
using int64_t = long long;
}  // namespace nibble
#else
#include <cstdint>
namespace nibble {
using std::int32_t;
using std::int64_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;
}  // namespace nibble
#endif

namespace nibble {

NIBBLE_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace nibble
