#include "telemetry/watch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "telemetry/line_file.h"
#include "telemetry/serve.h"

namespace nibble::telemetry {
namespace {

constexpr Nanoseconds kHealthPeriod = 1'000'000'000;

// The store forgets what is older than its retention, and a window needs samples before and after
// it: the last minute of an hour is for them.
Nanoseconds longest_window(Nanoseconds retention) {
  return retention - retention / 60;
}

Json watch_document(const Telemetry& telemetry, const Window& window) {
  Json signals = Json::array();
  for (const SignalState& state : telemetry.store->states()) {
    Json json = signal_json(state.signal);
    json.set("kept", static_cast<std::int64_t>(state.kept))
        .set("dropped", static_cast<std::int64_t>(state.dropped));
    if (state.dropped > 0) json.set("dropped_why", state.dropped_why);
    signals.push(std::move(json));
  }
  Json sources = Json::array();
  for (const SourceHealth& health : telemetry.sampler->health()) sources.push(health_json(health));
  return Json::object()
      .set("schema", "nibble.watch/1")
      .set("host", host_name())
      .set("duration_s", window.length_s())
      .set("signals", std::move(signals))
      .set("window", telemetry_json(telemetry, window))
      .set("sources", std::move(sources));
}

}  // namespace

Result<WatchOutcome> watch(const WatchOptions& options, const std::atomic<bool>& interrupted,
                           const WatchEvents& events) {
  NIBBLE_ASSIGN_OR_RETURN(Telemetry telemetry, open_telemetry(options.telemetry));
  std::optional<TelemetryServer> server;
  if (options.listen) {
    server.emplace(telemetry.store, *options.listen);
    NIBBLE_ASSIGN_OR_RETURN(const int port, server->start());
    if (events.listening) events.listening(port);
  }
  LineFile lines;
  NIBBLE_RETURN_IF_ERROR(lines.open(telemetry.store, options.jsonl));
  telemetry.sampler->start();
  const std::chrono::duration<double> margin(options.margin_s);
  std::this_thread::sleep_for(margin);
  const Nanoseconds begin = monotonic_now();
  Window window{.begin = begin, .end = begin};
  const auto interval = static_cast<Nanoseconds>(options.interval_s * 1e9);
  const auto duration = static_cast<Nanoseconds>(options.duration_s * 1e9);
  Nanoseconds next_table = begin + interval;
  Nanoseconds next_check = begin;
  bool show = options.table && events.show;
  bool more = true;
  while (!interrupted && more) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    window.end = monotonic_now();
    if (window.end >= next_check) {
      telemetry.sampler->health();  // marks what hangs
      next_check = window.end + kHealthPeriod;
    }
    if (window.end >= next_table) {
      if (show) show = events.show(watch_table(*telemetry.store, window.end, Style::for_stdout()));
      next_table = std::max(next_table + interval, window.end);
    }
    NIBBLE_ASSIGN_OR_RETURN(more, lines.write(interrupted));
    // Without a reader of its tables it goes on for its file and for those who listen to it.
    if (options.table && events.show && !show && !lines.is_open() && !server) more = false;
    if (duration > 0 && window.end - begin >= duration) more = false;
  }
  std::this_thread::sleep_for(margin);
  telemetry.sampler->stop();
  NIBBLE_RETURN_IF_ERROR(lines.write(interrupted));
  window.begin = std::max(begin, window.end - longest_window(options.telemetry.retention));
  WatchOutcome outcome{.window = window};
  outcome.document = watch_document(telemetry, window);
  outcome.health = health_table(telemetry.sampler->health(), Style::for_stdout());
  return outcome;
}

}  // namespace nibble::telemetry
