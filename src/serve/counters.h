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
#include "engine/request.h"

namespace nibble::serve {

// How a choice ended: as the engine has it, or cut off by --request-timeout.
enum class Outcome : std::uint8_t { kStop, kLength, kCancelled, kFailed, kTimeout };
inline constexpr std::size_t kOutcomes = 5;

inline Outcome outcome_of(engine::Finish finish) {
  switch (finish) {
    case engine::Finish::kStop:
      return Outcome::kStop;
    case engine::Finish::kLength:
      return Outcome::kLength;
    case engine::Finish::kFailed:
      return Outcome::kFailed;
    case engine::Finish::kCancelled:
      break;
  }
  return Outcome::kCancelled;
}

// The engine's words, and "timeout".
inline std::string_view to_string(Outcome outcome) {
  constexpr std::array kFinishes = {engine::Finish::kStop, engine::Finish::kLength,
                                    engine::Finish::kCancelled, engine::Finish::kFailed};
  const auto at = static_cast<std::size_t>(outcome);
  return at < kFinishes.size() ? engine::to_string(kFinishes[at]) : "timeout";
}

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

  // A request that is answered with this status instead of being served.
  void refuse(int status) {
    std::atomic<std::int64_t>& counter = status == 503                    ? busy
                                         : status == 404 || status == 405 ? not_found
                                                                          : invalid;
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  std::array<std::atomic<std::int64_t>, kOutcomes> outcomes = {};
  std::atomic<std::int64_t> invalid = 0;    // requests: other 4xx, and what HTTP itself forbids
  std::atomic<std::int64_t> not_found = 0;  // requests: 404 and 405
  std::atomic<std::int64_t> busy = 0;       // requests: 503
  api::SecondsHistogram ttft{api::kTtftBounds};
  api::SecondsHistogram itl{api::kItlBounds};
  api::SecondsHistogram end_to_end{api::kRequestBounds};
};

}  // namespace nibble::serve
