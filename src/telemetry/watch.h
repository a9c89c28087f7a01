// The library behind `nibble watch`: what works and what waits, live on a terminal, as JSON lines,
// and for others over HTTP.
//
//   std::atomic<bool> interrupted = false;
//   const Result<WatchOutcome> outcome = watch({.telemetry = options, .duration_s = 10},
//                                              interrupted, print);
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/table.h"
#include "base/terminal.h"
#include "net/http_server.h"
#include "telemetry/telemetry.h"

namespace nibble::telemetry {

// The newest numbers of one GPU; those that are missing or old are absent.
struct GpuNow {
  std::optional<double> utilization, sm, tensor, dram, power, power_limit, throttle_mask;
};
struct ServerNow {
  std::optional<double> running, waiting, kv_usage;
};

// What a device is doing, in a few words.
struct Activity {
  std::string text;
  Emphasis emphasis = Emphasis::kNone;
};
// Utilization says that some kernel is resident, not that it works: near 100 % with tensor cores,
// memory and power low is a kernel that spins or waits.
Activity gpu_activity(const GpuNow& gpu);
Activity server_activity(const ServerNow& server);

// Lines for each GPU, server and host, then what is not available and why. Values older than 5 s
// are left out.
std::string watch_table(const SampleStore& store, Nanoseconds now, const Style& style);
// What each source costs and how it fares.
std::string health_table(const std::vector<SourceHealth>& health, const Style& style);

struct WatchOptions {
  TelemetryOptions telemetry;
  double duration_s = 0;  // 0: until interrupted
  double interval_s = 1;  // between two tables
  std::string jsonl;      // a file to append to, "-" for standard output; empty: none
  std::optional<net::ServerOptions> listen;
  bool table = true;
  // Sampled before the window and after it: differences and energy need a sample on both sides.
  double margin_s = 0.6;
};

struct WatchOutcome {
  Window window;
  Json document;  // nibble.watch/1: the whole time as one window, or as much as the store keeps
  std::string health;
};

// Calls `show` with a table at each interval until it says that nobody reads them, and `listening`
// with the port once. Ends when interrupted, after the duration, or with an error when lines cannot
// be written any more.
struct WatchEvents {
  std::function<bool(const std::string& table)> show;
  std::function<void(int port)> listening;
};
Result<WatchOutcome> watch(const WatchOptions& options, const std::atomic<bool>& interrupted,
                           const WatchEvents& events);

}  // namespace nibble::telemetry
