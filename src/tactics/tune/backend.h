// What a tuner asks of whoever runs kernels: in this process, in a child process (worker.h), or in
// a test that makes the times up.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Candidates found, backend.candidates(key));
//   const Result<CheckRun> run = backend.check(key, found.feasible[3], 64, 50);
//   const Result<double> us = backend.time_us(key, found.feasible[3], round);
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tactics/tune/gate.h"
#include "tactics/tune/key.h"
#include "tactics/tune/tactic.h"

namespace nibble::tune {

struct RejectedTactic {
  AnyTactic tactic;
  std::string why;
};

// For one key: filters look at the shape and the kernel, never at a tile's name alone.
struct Candidates {
  AnyTactic fallback;  // the default; also among the feasible, unless it is infeasible itself
  std::vector<AnyTactic> feasible;
  std::vector<RejectedTactic> infeasible;
};

struct BackendIdentity {
  TuningSite site;
  std::string compiler;  // "NVRTC 13.0"; "none" of a CPU
};

// An error of check() or time_us() is a fault of that tactic alone: the next call must work again.
class TuneBackend {
 public:
  virtual ~TuneBackend() = default;
  virtual Result<BackendIdentity> identity() = 0;
  virtual Result<Candidates> candidates(const TuningKey& key) = 0;
  // One input, `repeats` runs as they are made in service: on a GPU replays of a graph.
  virtual Result<CheckRun> check(const TuningKey& key, const AnyTactic& tactic, std::int64_t tokens,
                                 int repeats) = 0;
  // One cold run at the key's tokens. Those of one round have the same routing.
  virtual Result<double> time_us(const TuningKey& key, const AnyTactic& tactic,
                                 std::size_t round) = 0;
};

}  // namespace nibble::tune
