#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace nibble {

// Spans below 16 have a bin each; above, the four bits behind the leading one choose it.
std::size_t LogHistogram::bin_of(Nanoseconds span) {
  constexpr std::uint64_t kExact = 1U << kSubBits;
  const auto value = static_cast<std::uint64_t>(span);
  if (value < kExact) return static_cast<std::size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  const auto group = static_cast<std::size_t>(shift + 1) << kSubBits;
  return group + static_cast<std::size_t>((value >> shift) - kExact);
}

Nanoseconds LogHistogram::upper_end(std::size_t bin) {
  constexpr std::size_t kExact = 1U << kSubBits;
  if (bin < kExact) return static_cast<Nanoseconds>(bin);
  const std::size_t shift = (bin >> kSubBits) - 1;
  const std::uint64_t lead = kExact + (bin & (kExact - 1));
  return static_cast<Nanoseconds>(((lead + 1) << shift) - 1);
}

// The count is added after the maximum, so that who sees a span counted sees it in the maximum.
void LogHistogram::record(Nanoseconds span) {
  span = std::max<Nanoseconds>(span, 0);
  Nanoseconds seen = max_.load(std::memory_order_relaxed);
  while (span > seen && !max_.compare_exchange_weak(seen, span, std::memory_order_relaxed)) {
  }
  counts_[bin_of(span)].fetch_add(1, std::memory_order_release);
}

void LogHistogram::clear() {
  for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
  max_.store(0, std::memory_order_relaxed);
}

std::uint64_t LogHistogram::count() const {
  std::uint64_t total = 0;
  for (const auto& count : counts_) total += count.load(std::memory_order_acquire);
  return total;
}

Nanoseconds LogHistogram::max() const {
  return max_.load(std::memory_order_relaxed);
}

Nanoseconds LogHistogram::quantile(double q) const {
  NIBBLE_CHECK(q >= 0 && q <= 1);
  const std::uint64_t total = count();
  if (total == 0) return 0;
  const double rank = std::max(1.0, std::ceil(q * static_cast<double>(total)));
  std::uint64_t seen = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    seen += counts_[bin].load(std::memory_order_acquire);
    if (static_cast<double>(seen) >= rank) return std::min(upper_end(bin), max());
  }
  return max();  // cleared meanwhile
}

}  // namespace nibble
