// Totals that a server keeps since its start, read before and after a level: what its own page says
// went through it, for the checks of the client's numbers.
//
//   NIBBLE_ASSIGN_OR_RETURN(CounterReader counters, CounterReader::make(url, web));
//   const ServerCounters before = counters.read_settled();
//   ... the level ...
//   const ServerCounters after = counters.read_settled();
//   check_output_tokens(metrics, after.output_since(before));
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/url.h"
#include "telemetry/web.h"

namespace nibble::drive {

struct ServerCounters {
  std::optional<double> prompt_tokens;
  std::optional<double> output_tokens;
  std::optional<double> requests;
  std::string reason;  // why one is missing

  // What came since; nullopt where one of the two is missing or the counter went back.
  std::optional<double> prompt_since(const ServerCounters& before) const;
  std::optional<double> output_since(const ServerCounters& before) const;
  std::optional<double> requests_since(const ServerCounters& before) const;
  // Why prompt_since() or output_since() is missing, in a sentence; empty: both are there.
  std::string why_not_since(const ServerCounters& before) const;
};

// Reads them from the metrics page in a moment of its own, on the calling thread.
class CounterReader {
 public:
  static Result<CounterReader> make(const net::Url& url, const telemetry::WebOptions& web);
  ~CounterReader();
  CounterReader(CounterReader&&) noexcept;
  CounterReader& operator=(CounterReader&&) noexcept;
  ServerCounters read();
  // Reads until the counters have stood still for 0.2 s and nothing runs, at most a second: some
  // servers count a request a little after its last byte, or refresh the page now and then.
  ServerCounters read_settled();

 private:
  struct Impl;
  explicit CounterReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::drive
