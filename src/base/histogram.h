// How spans of time are distributed, in a fixed 8 KB: counts in bins of 1/16 of their value.
//
//   LogHistogram lateness;
//   lateness.record(monotonic_now() - due);
//   lateness.quantile(0.99);   // ns, to 1/16 of its value, never too small
//   lateness.max();            // exact
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace nibble {

// Any thread may record; what another reads meanwhile may lack what is being recorded.
class LogHistogram {
 public:
  void record(Nanoseconds span);  // a negative one counts as 0
  void clear();

  std::uint64_t count() const;
  Nanoseconds max() const;  // 0 without spans
  // Of nearest rank: the smallest span that at least q of all spans do not exceed, 0 <= q <= 1,
  // given as the upper end of its bin and never above max(). 0 without spans.
  Nanoseconds quantile(double q) const;

 private:
  static constexpr int kSubBits = 4;  // 16 bins a doubling
  // One group of 16 for the spans below 16, one for each leading bit from 2^4 to 2^62.
  static constexpr std::size_t kBins = std::size_t{1 + 63 - kSubBits} << kSubBits;

  static std::size_t bin_of(Nanoseconds span);
  static Nanoseconds upper_end(std::size_t bin);

  std::array<std::atomic<std::uint64_t>, kBins> counts_ = {};
  std::atomic<Nanoseconds> max_ = 0;
};

}  // namespace nibble
