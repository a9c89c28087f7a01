#include "load/server_limit.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

#include "base/units.h"
#include "load/run_report.h"

namespace nibble::load {
namespace {

constexpr double kAlike = 0.05;  // of the running requests of two levels; of those that came in all
constexpr double kLeastQueue = 1;

struct Place {
  double load = 0;  // requests that the client kept with the server
  double running = 0;
  double waiting = 0;
  std::optional<double> kv_usage;
};

std::vector<Place> places_of(std::span<const LevelResult> levels) {
  std::vector<Place> places;
  for (const LevelResult& level : levels) {
    const auto& running = level.joined[Seen::kRunning].value;
    const auto& waiting = level.joined[Seen::kWaiting].value;
    const auto users = users_of(level.report.plan);
    const auto load = users ? users : rates_of(level).mean_in_flight;
    if (!running || !waiting || !load || !(*running > 0)) continue;
    places.push_back({.load = *load,
                      .running = *running,
                      .waiting = *waiting,
                      .kv_usage = level.joined[Seen::kKvUsage].value});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.load < b.load; });
  return places;
}

}  // namespace

bool ServerLimit::cache_is_full() const {
  return kv_usage && *kv_usage >= kFullCache;
}

std::optional<ServerLimit> find_server_limit(std::span<const LevelResult> levels) {
  const std::vector<Place> places = places_of(levels);
  if (places.empty()) return std::nullopt;
  const Place& top = places.back();
  const bool held = top.running < (1 - kAlike) * top.load;
  if (!held || top.waiting < kLeastQueue || top.waiting < kAlike * top.load) return std::nullopt;
  ServerLimit limit{.from = top.load,
                    .highest = top.load,
                    .running = top.running,
                    .queue = top.waiting,
                    .kv_usage = top.kv_usage};
  double queue = top.waiting;
  for (auto place = places.rbegin() + 1; place != places.rend(); ++place) {
    const bool alike = std::abs(place->running - top.running) <= kAlike * top.running;
    if (!alike || place->waiting > queue) break;
    queue = place->waiting;
    limit.from = place->load;
    if (place->kv_usage) limit.kv_usage = std::max(limit.kv_usage.value_or(0), *place->kv_usage);
  }
  return limit;
}

std::string sentence_of(const ServerLimit& limit) {
  const auto whole = [](double value) { return format_compact(std::round(value)); };
  const std::string seen =
      limit.from < limit.highest
          ? fmt::format("flat from {} on: running stays at {}, the queue grows to {}",
                        whole(limit.from), whole(limit.running), whole(limit.queue))
          : fmt::format("the server runs {} requests at once, and {} wait in its queue",
                        whole(limit.running), whole(limit.queue));
  if (!limit.kv_usage) return seen + "; whether for want of KV cache it does not tell";
  const std::string cache = format_share(*limit.kv_usage);
  if (limit.cache_is_full()) return fmt::format("{}: its KV cache is full ({})", seen, cache);
  return fmt::format("{}: a limit of its scheduler, with {} of the KV cache in use", seen, cache);
}

Json to_json(const ServerLimit& limit) {
  Json cause;
  if (limit.kv_usage) cause = limit.cache_is_full() ? "kv_cache" : "scheduler";
  return Json::object()
      .set("from", limit.from)
      .set("running", limit.running)
      .set("queue", limit.queue)
      .set("kv_usage", limit.kv_usage)
      .set("cause", std::move(cause));
}

}  // namespace nibble::load
