// What the client itself may have done to the numbers: how late its loops were, what it cost, and
// how far it is off against a server whose times are known.
//
//   ClientAudit audit{.loops = {{.lag_p99_ms = 0.2, .cpu_share = 0.4}}, .calibration = found};
//   judge(audit, mean_itl_ms);
//   audit.verdict          // "the client kept up: ..." or "client-limited: ..."
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace nibble::load {

struct LoopLoad {
  double lag_p50_ms = 0;  // how late the loop's probe, a timer each 10 ms, fired
  double lag_p99_ms = 0;
  double lag_max_ms = 0;
  double cpu_share = 0;  // of one core
};

struct ErrorSpread {  // client's number - the scripted one, ms
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

// The client against the built-in mock, both on this machine: an upper bound of the client's own
// error, since the mock takes cores of the client.
struct Calibration {
  double concurrency = 0;
  double itl_ms = 0;  // scripted
  double ttft_ms = 0;
  std::int64_t requests = 0;
  std::int64_t events = 0;
  std::int64_t failed = 0;
  ErrorSpread ttft_error_ms;     // against the script
  ErrorSpread itl_error_ms;      // of each gap, absolute, against the script
  double mock_error_p99_ms = 0;  // how far the mock itself was off its script
  double client_cpu_us_per_event = 0;
  double taken_unix_s = 0;
  double age_s = 0;     // 0: measured in this run
  bool cached = false;  // from an earlier run on this machine
};

// Whether the mock was nearer to its script than the gaps are long. Where it was not, what the
// client measured of it is a loose bound, and worth no place in a cache.
inline bool mock_kept_up(const Calibration& calibration) {
  return calibration.mock_error_p99_ms <= calibration.itl_ms;
}

struct ClientAudit {
  std::vector<LoopLoad> loops;
  std::optional<double> cpu_us_per_event;  // of this level
  std::int64_t late_sends = 0;             // requests sent more than 1 ms behind their schedule
  std::optional<Calibration> calibration;
  std::string calibration_reason;  // why there is none
  // Filled by judge().
  std::optional<double> gap_ms;  // mean gap between events of the level, if it had any
  bool cpu_limited = false;      // a loop had no time left: the throughput is the client's
  bool late = false;             // loops were late: single gaps and percentiles are uncertain
  bool client_limited() const { return cpu_limited || late; }
  std::string in_doubt;  // which numbers, one sentence; empty: none
  std::string verdict;   // one sentence, with the numbers that it rests on
};

// The latest and the busiest loop in one: a slow loop delays a share of all requests.
LoopLoad worst_of(const std::vector<LoopLoad>& loops);

// Lag of a loop above this share of the mean gap between events is late; a loop busier than this
// share of a core is limited by it.
inline constexpr double kMostLagOfItl = 0.10;
inline constexpr double kMostLoopCpu = 0.80;

// `itl_ms`: mean gap between events of the level, if it had any.
void judge(ClientAudit& audit, std::optional<double> itl_ms);

Json to_json(const ClientAudit& audit);
Json to_json(const Calibration& calibration);
// The inverse, for the cache; an error names the member.
Result<Calibration> parse_calibration(const Json& json, std::string_view where);

}  // namespace nibble::load
