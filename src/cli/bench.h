// `nibble bench`: roofs of this machine, and kernels held against them.
//
//   std::vector<CommandDef> list = {bench_command()};
#pragma once

#include <string>

#include "base/terminal.h"
#include "bench/bench.h"
#include "cli/command.h"

namespace nibble::cli {

CommandDef bench_command();

// What `nibble bench` prints for people.
std::string bench_text(const BenchReport& report, const Style& style);

}  // namespace nibble::cli
