// `nibble bench link`: what the links between the GPUs of this machine do.
//
//   NIBBLE_ASSIGN_OR_RETURN(const int status, run_bench_link(arguments));
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/terminal.h"
#include "bench/link.h"
#include "cli/command.h"

namespace nibble::cli {

// The options that only this one has, and those that it takes (of `bench` as a whole, too).
std::vector<OptionDef> bench_link_options();
const std::vector<std::string>& bench_link_takes();

Result<int> run_bench_link(const Arguments& arguments);

// What `nibble bench link` prints for people.
std::string link_text(const LinkReport& report, const Style& style);

}  // namespace nibble::cli
