// What a number of a case may be: far wider than anything real, and narrow enough that no quotient
// or product of two of them overflows, prints as infinite or takes minutes to simulate.
//
//   out.sms = reader.number("sms", kSms);
#pragma once

#include "base/json.h"

namespace nibble::case_range {

inline constexpr NumberRange kTflops{.min = 1e-6, .max = 1e6};
inline constexpr NumberRange kBandwidth{.min = 1e-3, .max = 1e6};  // GB/s
inline constexpr NumberRange kMemory{.min = 1e-3, .max = 1e6};     // GB
inline constexpr NumberRange kSharedMemory{.min = 1, .max = 1e6};  // kB
inline constexpr NumberRange kWatts{.min = 1, .max = 1e5};
inline constexpr NumberRange kMegahertz{.min = 1, .max = 1e5};
inline constexpr NumberRange kSms{.min = 1, .max = 1e5};
inline constexpr NumberRange kHop{.min = 0, .max = 1e6};      // us
inline constexpr NumberRange kTime{.min = 1e-6, .max = 1e9};  // us or ms
inline constexpr NumberRange kRate{.min = 1e-6, .max = 1e9};  // tokens or requests per second
inline constexpr NumberRange kConcurrency{.min = 1, .max = 1e6};
inline constexpr NumberRange kQueue{.min = 0, .max = 1e9};
inline constexpr NumberRange kDimension{.min = 1, .max = 1e7};
inline constexpr NumberRange kTokens{.min = 1, .max = 1e7};
inline constexpr NumberRange kCount{.min = 1, .max = 65536};
inline constexpr NumberRange kPercent{.min = 0, .max = 100};
inline constexpr NumberRange kClaim{.min = -1e30, .max = 1e30};

}  // namespace nibble::case_range
