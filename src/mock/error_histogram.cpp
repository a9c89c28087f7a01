#include "mock/error_histogram.h"

#include <algorithm>

namespace nibble::mock {
namespace {

void raise(std::atomic<Nanoseconds>& target, Nanoseconds value) {
  Nanoseconds seen = target.load(std::memory_order_relaxed);
  while (value > seen && !target.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::size_t ErrorHistogram::bucket_of(std::uint64_t size) {
  constexpr std::uint64_t kExact = 1 << kSubBits;  // below this every value has its own bucket
  if (size < kExact) return static_cast<std::size_t>(size);
  const int shift = static_cast<int>(std::bit_width(size)) - 1 - kSubBits;
  return (static_cast<std::size_t>(shift + 1) << kSubBits) +
         static_cast<std::size_t>((size >> shift) - kExact);
}

Nanoseconds ErrorHistogram::end_of(std::size_t bucket) {
  constexpr std::size_t kExact = 1 << kSubBits;
  if (bucket < kExact) return static_cast<Nanoseconds>(bucket);
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t within = (bucket & (kExact - 1)) + kExact;
  return static_cast<Nanoseconds>(((within + 1) << shift) - 1);
}

void ErrorHistogram::add(Nanoseconds error) {
  raise(error < 0 ? early_max_ : late_max_, error < 0 ? -error : error);
  const auto size = static_cast<std::uint64_t>(error < 0 ? -error : error);
  buckets_[bucket_of(size)].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

Nanoseconds ErrorHistogram::at_rank(std::uint64_t rank) const {
  std::uint64_t below = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    below += buckets_[bucket].load(std::memory_order_relaxed);
    if (below >= rank) return end_of(bucket);
  }
  return 0;
}

ErrorSnapshot ErrorHistogram::snapshot() const {
  ErrorSnapshot result;
  result.count = count_.load(std::memory_order_relaxed);
  result.late_max = late_max_.load(std::memory_order_relaxed);
  result.early_max = early_max_.load(std::memory_order_relaxed);
  if (result.count == 0) return result;
  const Nanoseconds largest = std::max(result.late_max, result.early_max);
  result.p50 = std::min(largest, at_rank((result.count + 1) / 2));
  result.p99 = std::min(largest, at_rank(result.count - result.count / 100));
  return result;
}

void ErrorHistogram::reset() {
  for (auto& bucket : buckets_) bucket.store(0, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  late_max_.store(0, std::memory_order_relaxed);
  early_max_.store(0, std::memory_order_relaxed);
}

}  // namespace nibble::mock
