// The lines between a tuner and its worker, as values (worker.h).
//
//   {"do": "time", "key": {...}, "tactic": {...}, "round": 3}   ->   {"us": 41.5}
//   {"do": "check", ...}   ->   {"failed": "CUDA_ERROR_ILLEGAL_INSTRUCTION in ..."}
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "tactics/tune/backend.h"

namespace nibble::tune {

inline constexpr std::size_t kMostLineBytes = std::size_t{1} << 24;

struct WireRequest {
  enum class What { kIdentity, kCandidates, kCheck, kTime };
  What what = What::kIdentity;
  TuningKey key;
  AnyTactic tactic;
  std::int64_t tokens = 0;
  int repeats = 0;
  std::size_t round = 0;
};

Json to_json(const WireRequest& request);
Result<WireRequest> parse_request(const Json& json);

Json to_json(const BackendIdentity& identity);
Json to_json(const Candidates& candidates, std::string_view op);
Json to_json(const CheckRun& run);
Json time_json(double us);
Json failed_json(const Error& error);

// A run error for an answer that is no answer, or one that says that it failed.
Result<BackendIdentity> parse_identity(const Json& json);
Result<Candidates> parse_candidates(const Json& json, std::string_view op);
Result<CheckRun> parse_check(const Json& json);
Result<double> parse_time(const Json& json);

}  // namespace nibble::tune
