// What the telemetry of a run says of one level: the joined numbers, all signals with reasons, and
// the server's own counters over the whole level.
//
//   const ServerCounters before = counters.read();   // while nothing runs
//   ... the level ...
//   const ServerCounters after = counters.read();
//   result.joined = join(telemetry, window, metrics);
//   report.checks.push_back(check_output_tokens(report.all, after.output_since(before)));
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "load/joined.h"
#include "load/metrics.h"
#include "net/url.h"
#include "telemetry/telemetry.h"

namespace nibble::drive {

// Over `window`; tokens of `metrics` are those of the same window. Without telemetry (nullptr)
// every value has a reason.
load::Joined join(const telemetry::Telemetry* telemetry, const load::Window& window,
                  const load::LevelMetrics& metrics);

// Totals that a server keeps since its start.
struct ServerCounters {
  std::optional<double> prompt_tokens;
  std::optional<double> output_tokens;
  std::optional<double> requests;
  std::string reason;  // why one is missing
  std::optional<double> prompt_since(const ServerCounters& before) const;
  std::optional<double> output_since(const ServerCounters& before) const;
};

// Reads them from the metrics page in a moment of its own, on the calling thread.
class CounterReader {
 public:
  static Result<CounterReader> make(const net::Url& url, const telemetry::WebOptions& web);
  ~CounterReader();
  CounterReader(CounterReader&&) noexcept;
  CounterReader& operator=(CounterReader&&) noexcept;
  ServerCounters read();
  // Reads until the counters stand still (the server has seen the end of the last request), at most
  // a second: some servers count a request when it has ended, or refresh the page now and then.
  ServerCounters read_settled();

 private:
  struct Impl;
  explicit CounterReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::drive
