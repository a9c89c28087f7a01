// `nibble mock`: a scripted server with the OpenAI API.
//
//   std::vector<CommandDef> list = {mock_command()};
#pragma once

#include "cli/command.h"
#include "mock/script.h"

namespace nibble::cli {

CommandDef mock_command();

// The script of a command line: that of --script, with the other flags over it.
Result<mock::MockScript> script_from_arguments(const Arguments& arguments);

}  // namespace nibble::cli
