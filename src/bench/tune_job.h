// What a tuner's worker is to tune on, as the first line that it is given (tactics/tune/worker.h).
//
//   tune::WorkerBackend backend({.words = words, .job = to_json(TuneJob{.on = "cuda:0"})});
//   return tune::serve_worker(make_tune_service, STDIN_FILENO, out);   // in the child
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tactics/tune/worker.h"

namespace nibble {

struct TuneJob {
  std::string on = "cpu";            // or "cuda:N"
  std::string routing = "random";    // balanced, random, zipf:S, or a file
  std::vector<std::int64_t> tokens;  // of all keys: how many copies are cold follows from them
  std::int64_t experts = 1;          // of the layer: a file's counts must be of so many
  std::uint64_t seed = 1;
};

Json to_json(const TuneJob& job);
Result<TuneJob> parse_tune_job(const Json& json);
Result<tune::WorkerService> make_tune_service(const Json& job);

// Where choices of `on` hold: opens the GPU to ask, but makes nothing there.
Result<tune::TuningSite> tuning_site(const std::string& on);

}  // namespace nibble
