// `nibble diagnose --diff BEFORE AFTER`: what changed, level by level and bar by bar.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace nibble::cli {

// Exit status, or the error that a document is no diagnosis.
Result<int> run_diagnose_diff(const Arguments& arguments);

}  // namespace nibble::cli
