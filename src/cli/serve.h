// `nibble serve`: the engine behind the OpenAI API.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

CommandDef serve_command();

}  // namespace nibble::cli
