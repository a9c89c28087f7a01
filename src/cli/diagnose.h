// `nibble diagnose`: measures what can be measured, says what holds a deployment back, and proves
// it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef diagnose_command();

}  // namespace nibble::cli
