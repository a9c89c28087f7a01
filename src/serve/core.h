// What the requests of one server share, whichever loop they run on.
//
//   if (core.draining) ...                      // no new answers
//   const ActiveRequest active(core);           // counted while it lives
//   core.engine.submit(...)
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"
#include "serve/counters.h"
#include "serve/options.h"
#include "serve/parameters.h"
#include "serve/places.h"
#include "serve/token_bound.h"

namespace nibble::serve {

struct Core {
  Core(ServeOptions given_options, engine::Engine& given_engine, ServedModel given_model);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const ServeOptions options;
  engine::Engine& engine;
  const ServedModel model;
  const Bounds bounds;
  const std::int64_t started_at_s;
  const TokenBound token_bound;

  std::atomic<int> port;  // that the server listens on; before that, the one it was told
  Places places;          // in the engine

  Counters counters;
  std::atomic<bool> draining = false;    // takes no new answers
  std::atomic<std::int64_t> active = 0;  // requests for answers, under way

  // What a request or an update costs an event loop by --inject front_end_block_ms.
  bool blocks_loops() const { return options.inject.front_end_block > 0; }
  void block_loop() const;

  std::string url() const;  // "http://127.0.0.1:8000"
  // No two answers have the same, in other runs of the server either.
  std::string new_id(std::string_view kind);

 private:
  std::string id_prefix_;
  std::atomic<std::uint64_t> next_id_ = 1;
};

// A request for an answer, counted from its arrival to its last byte.
class ActiveRequest {
 public:
  explicit ActiveRequest(Core& core) : core_(core) { core_.active.fetch_add(1); }
  ~ActiveRequest() { core_.active.fetch_sub(1); }
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

 private:
  Core& core_;
};

}  // namespace nibble::serve
