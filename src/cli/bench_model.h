// `nibble bench step` and `nibble bench perplexity`: the engine's whole model on this machine.
//
//   NIBBLE_ASSIGN_OR_RETURN(const int status, run_bench_step(arguments));
#pragma once

#include <vector>

#include "base/result.h"
#include "base/terminal.h"
#include "bench/step.h"
#include "cli/command.h"

namespace nibble::cli {

// The options that only these two have.
std::vector<OptionDef> bench_model_options();

Result<int> run_bench_step(const Arguments& arguments);
Result<int> run_bench_perplexity(const Arguments& arguments);

// What `nibble bench step` prints for people.
std::string step_text(const StepReport& report, const Style& style);

// --threads of every `bench`: at most four for each processor; default: the processors.
Result<int> bench_threads(const Arguments& arguments);

}  // namespace nibble::cli
