// nibble tactics: every kernel variant for an architecture: what it needs, whether it fits, why
// not.
//
//   list.push_back(tactics_command());
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef tactics_command();

}  // namespace nibble::cli
