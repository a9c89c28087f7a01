// What the server has served, choice by choice: the numbers of /metrics that the engine alone does
// not know.
//
//   counters.first_token(update.at - arrival);
//   counters.next_tokens(update.tokens.size(), gap);
//   counters.end(Outcome::kStop, end - arrival);
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/metrics_page.h"
#include "base/clock.h"

namespace nibble::serve {

enum class Outcome : std::uint8_t { kStop, kLength, kAbort, kError };
inline constexpr std::array<std::string_view, 4> kOutcomeNames = {"stop", "length", "abort",
                                                                  "error"};

// Any thread.
class Counters {
 public:
  void first_token(Nanoseconds since_arrival) { ttft.add(since_arrival); }
  // That came `gap` after the ones before them.
  void next_tokens(std::size_t count, Nanoseconds gap) {
    itl.add(gap / static_cast<Nanoseconds>(count), count);
  }
  void end(Outcome outcome, Nanoseconds since_arrival) {
    outcomes[static_cast<std::size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
    end_to_end.add(since_arrival);
  }

  std::array<std::atomic<std::int64_t>, kOutcomeNames.size()> outcomes = {};
  std::atomic<std::int64_t> refused = 0;  // requests: 400 and the like
  std::atomic<std::int64_t> busy = 0;     // requests: 503
  api::SecondsHistogram ttft{api::kTtftBounds};
  api::SecondsHistogram itl{api::kItlBounds};
  api::SecondsHistogram end_to_end{api::kRequestBounds};
};

}  // namespace nibble::serve
