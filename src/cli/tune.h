// `nibble tune`: which tactic each product of a model's layer of experts runs fastest with, told
// from noise and checked first; and what a tuning file says of itself.
//
//   std::vector<CommandDef> list = {tune_command()};
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef tune_command();

}  // namespace nibble::cli
