// `nibble serve`: the engine behind the OpenAI API.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef serve_command();
std::vector<OptionDef> serve_options();  // all but --json and --help

}  // namespace nibble::cli
