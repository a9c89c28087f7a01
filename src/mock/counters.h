// What the mock has served, as a server counts it, and the pages on which real servers show it.
//
//   Counters counters;
//   counters.admit(request.prompt_tokens, cached);  ...  counters.generated(3);
//   metrics_page(MetricsStyle::kVllm, script, counters, {.running = 2, .waiting = 0});
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "api/metrics_page.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "mock/script.h"

namespace nibble::mock {

enum class Finish : std::uint8_t { kLength, kStop, kAbort };

class Counters {
 public:
  Counters();

  void admit(std::int64_t prompt_tokens, std::int64_t cached_tokens, Nanoseconds queued);
  // The two halves of admit(), for an engine that computes prompts piece by piece.
  void prompt(std::int64_t tokens, std::int64_t cached_tokens);
  void start(std::int64_t held_tokens, Nanoseconds queued);
  // A step of such an engine.
  void step(std::int64_t decode_rows, std::int64_t prompt_tokens);
  void first_token(Nanoseconds since_arrival);
  // Tokens of a chunk after the first, which left `gap` after the chunk before it.
  void next_tokens(std::int64_t count, Nanoseconds gap);
  // Tokens of any chunk.
  void generated(std::int64_t count);
  // All that the request held is free again: its prompt and what was generated.
  void end(Finish finish, Nanoseconds since_arrival, std::int64_t held_tokens);

  // Counters, as of one moment each.
  std::int64_t prompt_tokens() const { return prompt_tokens_.load(); }
  std::int64_t generation_tokens() const { return generation_tokens_.load(); }
  std::int64_t ended(Finish finish) const {
    return ended_[static_cast<std::size_t>(finish)].load();
  }
  std::int64_t held_tokens() const { return held_tokens_.load(); }

 private:
  friend class PageWriter;

  std::atomic<std::int64_t> prompt_tokens_ = 0;
  std::atomic<std::int64_t> cached_tokens_ = 0;
  std::atomic<std::int64_t> generation_tokens_ = 0;
  std::atomic<std::int64_t> held_tokens_ = 0;  // in the KV cache
  std::atomic<std::int64_t> longest_ = 0;      // tokens of the longest request so far
  std::atomic<std::int64_t> chunks_ = 0;
  std::atomic<Nanoseconds> prefill_time_ = 0;
  std::atomic<Nanoseconds> decode_time_ = 0;
  std::array<std::atomic<std::int64_t>, 3> ended_ = {};
  api::SecondsHistogram ttft_;
  api::SecondsHistogram itl_;
  api::SecondsHistogram end_to_end_;
  api::SecondsHistogram queue_;
  api::SecondsHistogram step_tokens_;  // a token stands as a second
};

struct ErrorSnapshot {
  std::uint64_t count = 0;
  Nanoseconds p50 = 0;  // of the sizes of the errors, early or late
  Nanoseconds p99 = 0;
  Nanoseconds late_max = 0;
  Nanoseconds early_max = 0;
};

// How far the server's own writes were from their due times: what a client that is tested against
// it must not be blamed for. Any thread may add.
class WriteErrors {
 public:
  void add(Nanoseconds late);
  ErrorSnapshot snapshot() const;
  void reset();

 private:
  LogHistogram size_;
  LogHistogram late_;  // in each of these two the others are zeros
  LogHistogram early_;
};

struct Occupancy {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  double tokens_per_s = 0;  // since the page before
  // What only an engine of steps knows.
  struct Engine {
    std::int64_t kv_tokens = 0;
    std::int64_t preemptions = 0;
    double busy_share = 0;  // of the last second
  };
  std::optional<Engine> engine = std::nullopt;
};

// The page as its server writes it; kNone gives "". kLlamacppQuoted is the llama.cpp page as one
// JSON string, as one of its builds sent it (llama.cpp#17384).
std::string metrics_page(MetricsStyle style, const MockScript& script, const Counters& counters,
                         Occupancy now);

}  // namespace nibble::mock
