// The tuning file, nibble.tuning/1 (docs/schemas/nibble.tuning.1.json): which tactic was chosen for
// which key, out of what, and where it was measured.
//
//   NIBBLE_ASSIGN_OR_RETURN(const TuningFile file, read_tuning("h200.json"));
//   for (const TuningEntry& entry : file.entries) ...
//   const std::string stale = difference(file.site, here);   // "" : of use here
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tactics/tune/backend.h"
#include "tactics/tune/choose.h"

namespace nibble::tune {

// A candidate that was right and timed.
struct TimedTactic {
  AnyTactic tactic;
  CandidateTimes times;
};

struct TuningEntry {
  TuningKey key;
  std::string routing = "random";
  double taken_unix_s = 0;
  int replays = 0;  // of each check
  std::vector<std::int64_t> checked_tokens;
  std::optional<AnyTactic> choice;  // nullopt: no candidate can be used; `note` says why
  AnyTactic fallback;               // the default
  std::optional<AnyTactic> runner_up;
  double gain = 0;    // Verdict::gain
  double regret = 0;  // of the default
  std::size_t rounds = 0;
  std::vector<TimedTactic> times;        // fastest first
  std::vector<RejectedTactic> rejected;  // wrong, or faulted
  std::vector<RejectedTactic> infeasible;
  std::string note;  // "untuned: single candidate", or why there is no choice; may be empty

  std::vector<std::string> ties() const;  // with the choice
};

struct TuningFile {
  TuningSite site;
  std::string compiler;
  std::string version;  // of nibble
  std::string command;
  double began_unix_s = 0;  // the run that wrote last
  double taken_unix_s = 0;  // its last entry
  std::vector<TuningEntry> entries;

  const TuningEntry* find(const TuningKey& key) const;
  void put(TuningEntry entry);  // replaces that of the same key
};

Json to_json(const TuningFile& file);
Json to_json(const TuningEntry& entry);
// An input error says in one sentence what is wrong, and where.
Result<TuningFile> parse_tuning(const Json& json, const std::string& where);
// The same of a file: missing, not JSON, another version of the schema, damaged, or at odds with
// itself. `remedy` ends the sentence of one that is there.
inline constexpr std::string_view kWriteAnother = "nibble tune --output writes another";
Result<TuningFile> read_tuning(const std::filesystem::path& path,
                               std::string_view remedy = kWriteAnother);
// What is at odds in an entry: its choice with its times, what it says with what follows from it;
// "" : nothing. Nobody but an editor makes such a file.
std::string contradiction(const TuningEntry& entry);

}  // namespace nibble::tune
