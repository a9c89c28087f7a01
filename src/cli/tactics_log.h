// nibble tactics --from-log: what another program's autotuner tried, chose and skipped, and what
// that says for a chip.
//
//   NIBBLE_ASSIGN_OR_RETURN(const int status, run_tactics_log(arguments));   // has --from-log
//   fmt::print("{}", tactics_log_text(logs, kSm120Limits, {}, Style::for_stdout()));
#pragma once

#include <span>
#include <string>

#include "base/terminal.h"
#include "cli/command.h"
#include "kernels/device/block_limits.h"
#include "tactics/logs/conclusions.h"
#include "tactics/logs/tactic_log.h"

namespace nibble::cli {

// "--from-log FILE", for the command's list of options.
OptionDef from_log_option();

// Reads every file of --from-log; the chip is --machine's or --arch's, else sm_120. Prints a table,
// or with --json a nibble.tactics_log/1 document.
Result<int> run_tactics_log(const Arguments& arguments);

std::string tactics_log_text(std::span<const logs::TacticLog> logs, const BlockLimits& limits,
                             const logs::AskedChip& asked, const Style& style);

}  // namespace nibble::cli
