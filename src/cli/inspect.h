// nibble inspect DIR: what a checkpoint holds, against what its configuration claims, and what is
// wrong with it.
//
//   const CheckpointReport report = inspect_checkpoint(checkpoint, {.deep = false});
//   fmt::print("{}", inspect_text(report, Style::for_stdout()));
//   fmt::print("{}\n", inspect_document(report).dump());   // nibble.inspect/1
#pragma once

#include <string>

#include "base/json.h"
#include "base/terminal.h"
#include "checkpoint/inspect.h"
#include "cli/command.h"

namespace nibble::cli {

CommandDef inspect_command();

// Exit status 2 when a fault is an error: the checkpoint is input that cannot be served. The whole
// report is printed all the same.
Result<int> run_inspect(const Arguments& arguments);

std::string inspect_text(const CheckpointReport& report, const Style& style);
Json inspect_document(const CheckpointReport& report);  // inspect_json.cpp

}  // namespace nibble::cli
