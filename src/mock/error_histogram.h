// How far the server's own writes were from their due times: what a client that is tested against
// it must not be blamed for.
//
//   ErrorHistogram errors;
//   errors.add(written_at - due);
//   errors.snapshot().p99;   // ns, to 1/16 of its value, rounded up
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace nibble::mock {

struct ErrorSnapshot {
  std::uint64_t count = 0;
  Nanoseconds p50 = 0;  // of the sizes of the errors, early or late
  Nanoseconds p99 = 0;
  Nanoseconds late_max = 0;
  Nanoseconds early_max = 0;
};

// Any thread may add; a snapshot taken meanwhile may lack what is being added.
class ErrorHistogram {
 public:
  void add(Nanoseconds error);
  ErrorSnapshot snapshot() const;
  void reset();

 private:
  static constexpr int kSubBits = 4;  // 16 buckets a doubling: to 1/16 of the value
  static constexpr std::size_t kBuckets = std::size_t{64} << kSubBits;

  static std::size_t bucket_of(std::uint64_t size);
  static Nanoseconds end_of(std::size_t bucket);
  Nanoseconds at_rank(std::uint64_t rank) const;

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_ = {};
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<Nanoseconds> late_max_ = 0;
  std::atomic<Nanoseconds> early_max_ = 0;
};

}  // namespace nibble::mock
