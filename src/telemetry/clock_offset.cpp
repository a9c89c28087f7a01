#include "telemetry/clock_offset.h"

#include <optional>

namespace nibble::telemetry {

Result<ClockOffset> estimate_offset(std::span<const ClockExchange> exchanges) {
  std::optional<ClockOffset> best;
  std::size_t sound = 0;
  for (const ClockExchange& exchange : exchanges) {
    const Nanoseconds there = exchange.answered_at - exchange.received_at;
    const Nanoseconds round_trip = exchange.received - exchange.sent - there;
    if (there < 0 || round_trip < 0) continue;
    ++sound;
    if (best && best->round_trip <= round_trip) continue;
    // The middle of [answered - received, received_at - sent], without a sum that could overflow.
    const Nanoseconds low = exchange.answered_at - exchange.received;
    best = ClockOffset{
        .offset = low + round_trip / 2, .bound = (round_trip + 1) / 2, .round_trip = round_trip};
  }
  if (!best) return run_error("the other host's clock gave no answer that makes sense");
  best->exchanges = sound;
  return *best;
}

}  // namespace nibble::telemetry
