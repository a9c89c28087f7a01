// `nibble analyze`: the floor of a step, and a case explained against it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef analyze_command();

}  // namespace nibble::cli
