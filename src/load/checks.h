// Do the numbers agree with each other? Laws that hold whatever the server does.
//
//   const Check little = check_little(metrics, in_flight_seen);
//   if (!little.holds) ...  little.sentence
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "load/metrics.h"

namespace nibble::load {

struct Check {
  std::string id;               // "littles_law"
  std::optional<double> value;  // relative difference, or a count; null: could not be checked
  double limit = 0;
  std::optional<bool> holds;  // null: could not be checked
  std::string sentence;       // with both numbers, or why not
};

inline constexpr double kLittleLimit = 0.02;
inline constexpr double kTokenLimit = 0.005;

// |sum of latencies / duration - mean in flight| < 2 %. `mean_in_flight` should come from elsewhere
// than the rows, such as the generator's own counter over the same time; without it the mean of the
// intervals is used, which guards the arithmetic alone (and says so). In a window the law holds
// only if the level was steady there: arrivals equal departures.
Check check_little(const LevelMetrics& metrics, std::optional<double> mean_in_flight);

// sent = ok + failed + cancelled: what the generator sent against the rows that it wrote.
Check check_requests(const LevelMetrics& metrics, std::optional<std::int64_t> sent);

// Output tokens of all rows of the level, warm-up left out, against the rise of the server's
// counter over the same time. Anyone else's requests on that server show up here.
Check check_output_tokens(const LevelMetrics& metrics, std::optional<double> server_tokens);
// Prompt tokens likewise; a server that counts cached tokens apart needs them added.
Check check_prompt_tokens(const LevelMetrics& metrics, std::optional<double> server_tokens);

Json to_json(const std::vector<Check>& checks);

}  // namespace nibble::load
