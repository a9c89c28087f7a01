// Cold weights: so many units of them (experts, or copies of a matrix) that a unit has long left
// the caches when its turn comes again.
//
//   const Ring ring = plan_ring({.unit_bytes = 7e6, .least_units = 8, .cache_bytes = 32e6,
//                                .available_bytes = 8e9});
//   ColdOrder order(ring.units, seed);
//   for (const std::int64_t unit : order.next(8)) touch(unit);   // the 8 longest untouched
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace nibble {

struct RingRequest {
  double unit_bytes = 0;
  std::int64_t least_units = 1;  // that one run may touch
  double cache_bytes = 0;        // the last-level cache, all of it
  double available_bytes = 0;    // memory that may be had
  // Tiny units would ask for millions of copies, whose administration is what would be measured.
  std::int64_t most_units = std::int64_t{1} << 14;
  double unit_memory_bytes = 0;  // what a unit takes when its padding counts; 0: unit_bytes
};

struct Ring {
  std::int64_t units = 1;
  double bytes = 0;
  bool cold = true;
  std::string note;  // why it is not cold, or which part of memory it takes; may be empty
};

// The least that counts as cold: four last-level caches, and 512 MB.
double cold_bytes(double cache_bytes);

// As many units as reach cold_bytes(), within half of the memory that is available and
// `most_units`, but never fewer than `least_units`; a ring that is too short for that says so.
Ring plan_ring(const RingRequest& request);

// Hands out the units that were untouched for longest; the first round is shuffled by the seed, so
// that neighbours in time are no neighbours in memory.
class ColdOrder {
 public:
  ColdOrder(std::int64_t units, std::uint64_t seed);
  // `count` different units, at most all.
  std::vector<std::int64_t> next(std::int64_t count);

 private:
  std::deque<std::int64_t> waiting_;
};

}  // namespace nibble
