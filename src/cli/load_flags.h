// The command line of `nibble load` as a run. Names and defaults are those of vLLM's and SGLang's
// benchmarks; where the two disagree the backend decides, and a note says so.
//
//   CommandDef{.name = "load", .options = load_command_options()};
//   NIBBLE_ASSIGN_OR_RETURN(LoadFlags flags, load_flags_from(arguments));
//   flags.run.levels.size();                    // one for each value of a list
//   flags.run.ledger = flags.ledger ? &*flags.ledger : nullptr;
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/load_outputs.h"
#include "drive/run.h"
#include "ledger/step.h"

namespace nibble::cli {

// Of the options that describe what is served and on what.
inline constexpr const char* kFitOptions = "The physical fit (needs --gpu)";
std::vector<OptionDef> load_command_options();

struct LoadFlags {
  drive::RunOptions run;  // all but `rows` and `ledger`
  std::optional<Ledger> ledger;
  LoadOutputs outputs;
  bool progress = true;  // on a terminal
};

// Reads what it names (key, tokenizer, prompts, trace, model) and asks nobody: every fault of the
// command line is known before the first request.
Result<LoadFlags> load_flags_from(const Arguments& arguments);

// Its parts. Notes are sentences for the document: what was done otherwise than asked or than the
// benchmark of that name does it.
using Notes = std::vector<std::string>;

// Whether the rules of SGLang's benchmark hold: by the backend's name.
bool follows_sglang(const api::Backend& backend);

Result<drive::Target> target_from(const Arguments& arguments, Notes& notes);

struct LevelDefaults {
  std::int64_t requests = 0;  // of a level when neither a number nor a duration is given
  std::uint64_t seed = 0;     // of arrival times; each level has one of its own
};
Result<std::vector<drive::LevelOptions>> levels_from(const Arguments& arguments,
                                                     const LevelDefaults& defaults, Notes& notes);

// What --gpu and the deployment flags of `nibble analyze` describe; nullopt without --gpu.
// `context`: tokens in the cache of a sequence, where --context does not say.
Result<std::optional<Ledger>> ledger_from(const Arguments& arguments,
                                          const std::optional<double>& context);

// --goodput and --metric-percentiles.
Result<load::MetricsOptions> metrics_from(const Arguments& arguments);

// Notes what is accepted for the sake of old command lines, and refuses what cannot be honoured.
Result<> check_foreign_flags(const Arguments& arguments, Notes& notes);

// The command line as a shell reads it, without what may be a key: values of headers, and members
// of JSON or metadata whose names speak of secrets.
std::string command_without_secrets(std::span<const std::string> words);

// Seconds as nanoseconds, from 0 on; nullopt when not given.
Result<std::optional<Nanoseconds>> seconds_from(const Arguments& arguments, std::string_view option,
                                                bool above_zero = false);

}  // namespace nibble::cli
