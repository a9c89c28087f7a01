// The live part of a diagnosis: a server that runs, or one of our own, its kernels alone and a
// sweep of load, as the documents that a recorded diagnosis reads.
//
//   NIBBLE_ASSIGN_OR_RETURN(LiveRun run, LiveRun::prepare(arguments));
//   NIBBLE_RETURN_IF_ERROR(run.measure(evidence));
//   run.load_again({{"--random-input-len", "1"}});       // an experiment
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/child_server.h"
#include "cli/command.h"
#include "diagnose/evidence.h"
#include "engine/models/load.h"
#include "ledger/step.h"

namespace nibble::cli {

// An option of `nibble load` and its value.
using LoadChange = std::pair<std::string, std::string>;

class LiveRun {
 public:
  // Reads the flags and asks the server who it is; starts one where none is named. Nothing is
  // measured yet.
  static Result<LiveRun> prepare(const Arguments& arguments);

  // Kernels, then the sweep: each is an entry of the evidence's sources, and a probe that fails is
  // a reason there. A run error only where no request succeeded at all.
  Result<> measure(diagnose::Evidence& evidence);

  // Sequences of the levels that will be run.
  std::vector<std::int64_t> users() const;

  // One level more, with other options than the sweep had; nibble.load/1.
  Result<Json> load_again(const std::vector<LoadChange>& changes);

  // Prompts are made to a length that an experiment may change.
  bool random_prompts() const;
  std::int64_t length(std::string_view option) const;  // of --random-input-len, --random-output-len
  const std::string& why_ended_early() const { return ended_early_; }

 private:
  explicit LiveRun(Arguments load) : load_(std::move(load)) {}
  Result<Json> run(const Arguments& arguments);
  Result<> start_own(const Arguments& arguments);
  void look_for_model();
  void measure_kernels(diagnose::Evidence& evidence);

  Arguments load_;                     // for load_flags_from
  std::optional<ChildServer> server_;  // of our own
  std::filesystem::path folder_;       // of the model, where our engine serves it on this machine
  engine::ModelOptions options_;       // with which it does
  int threads_ = 1;                    // of its engine
  std::string no_kernels_;             // why there is no folder
  Json kernels_;                       // nibble.bench/1 of the step; null: see no_kernels_
  std::optional<Ledger> ledger_;
  std::string ended_early_;
};

}  // namespace nibble::cli
