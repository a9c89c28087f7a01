// What holds a server back by its own counts: it runs no more requests at once, and the rest waits.
//
//   const auto limit = find_server_limit(report.levels);
//   if (limit) limit->from, limit->running      // 32, 32: a limit of 32 requests at once
//   sentence_of(*limit)   // "flat from 32 on: running stays at 32, the queue grows to 96 ..."
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/json.h"

namespace nibble::load {

struct LevelResult;

struct ServerLimit {
  double from = 0;     // least users (open loops: requests in flight) where it ran as many
  double highest = 0;  // those of the level that this is read from
  double running = 0;  // requests that it ran there
  double queue = 0;    // requests that waited there
  std::optional<double> kv_usage;  // 0 to 1, the most of these levels
  bool cache_is_full() const;
};

// Use of the KV cache from which on it is what requests wait for.
inline constexpr double kFullCache = 0.9;

// From the highest level down: all that ran as many requests within 5 %. nullopt where nothing
// waits, or where the server does not tell.
std::optional<ServerLimit> find_server_limit(std::span<const LevelResult> levels);
std::string sentence_of(const ServerLimit& limit);
Json to_json(const ServerLimit& limit);

}  // namespace nibble::load
