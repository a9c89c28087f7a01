// How far another host's monotonic clock is ahead of ours, and how well that is known.
//
//   const Result<ClockOffset> clock = estimate_offset(exchanges);
//   const Nanoseconds ours = theirs - clock->offset;    // off by clock->bound at most
#pragma once

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "base/result.h"

namespace nibble::telemetry {

// One question and its answer.
struct ClockExchange {
  Nanoseconds sent = 0;         // ours, before the question left
  Nanoseconds received_at = 0;  // theirs, when it had come
  Nanoseconds answered_at = 0;  // theirs, when the answer left
  Nanoseconds received = 0;     // ours, when the answer had come
};

struct ClockOffset {
  Nanoseconds offset = 0;      // theirs minus ours
  Nanoseconds bound = 0;       // of its error, whatever the ways back and forth took
  Nanoseconds round_trip = 0;  // of the fastest exchange, without the time spent over there
  std::size_t exchanges = 0;   // that made sense
};

// From the exchange with the shortest round trip: the question came somewhere between our sending
// and our receiving, so that the middle is off by half the round trip at most (NTP, RFC 5905).
// Exchanges whose times run backwards are passed over.
Result<ClockOffset> estimate_offset(std::span<const ClockExchange> exchanges);

}  // namespace nibble::telemetry
