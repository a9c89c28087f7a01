// The whole way of a key to its choice: candidates, the gate, times, the choice; and of a list of
// keys to a tuning file.
//
//   const TuningEntry entry = tune_key(backend, key, {.seconds = 5}, steady_now, progress);
//   NIBBLE_ASSIGN_OR_RETURN(const TuneReport report, tune_keys(backend, request, progress));
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/sampler.h"
#include "tactics/tune/backend.h"
#include "tactics/tune/choose.h"
#include "tactics/tune/tuning_file.h"

namespace nibble::tune {

struct TuneOptions {
  ChoiceRules rules;
  int replays = 50;    // of each check
  double seconds = 5;  // of timing a key; the round that has begun is finished
  std::string routing = "random";
  std::uint64_t seed = 1;
};

// What is being done, for people: "checking w4a16 mma ...".
using TuneProgress = std::function<void(std::string_view what)>;

// An entry in any case: one without a choice says why. Where there was no candidate it has neither
// times nor rejected tactics, and its default is none.
TuningEntry tune_key(TuneBackend& backend, const TuningKey& key, const TuneOptions& options,
                     const Now& now, const TuneProgress& progress);

struct TuneRequest {
  std::vector<TuningKey> keys;
  std::filesystem::path output;  // empty: default_tuning_path()
  TuneOptions options;
  bool again = false;  // measures what the file has already
  std::string version;
  std::string command;
};

struct TuneReport {
  std::filesystem::path path;
  TuningFile file;                // as it is on disk now
  std::vector<TuningKey> keys;    // that were asked for
  std::vector<TuningKey> reused;  // those that the file had, or another process decided meanwhile
  std::vector<TuningEntry> without_candidates;  // not in the file: nothing was tried
  std::vector<std::string> notes;
  bool failed() const;  // a key has no candidate that can be used
};

// Holds the file's lock until all keys are decided: a second process that is asked the same waits,
// and takes what the first one chose. Each key is on disk as soon as it is decided.
Result<TuneReport> tune_keys(TuneBackend& backend, const TuneRequest& request, const Now& now,
                             const std::function<double()>& unix_now, const TuneProgress& progress);

}  // namespace nibble::tune
