// A load test as `nibble load` and `nibble diagnose` run it: on a terminal with a line of progress,
// ended in good order by Ctrl-C.
//
//   NIBBLE_ASSIGN_OR_RETURN(LoadFlags flags, load_flags_from(arguments));
//   flags.run.rows = rows.path();
//   NIBBLE_ASSIGN_OR_RETURN(const drive::RunOutcome outcome, run_load(flags));
#pragma once

#include "base/result.h"
#include "cli/load_flags.h"
#include "drive/run.h"

namespace nibble::cli {

// Takes `flags.run` with it; the flags' ledger is used where there is one. SIGINT, SIGTERM and
// SIGHUP end the run with what was measured; a third one ends the program.
Result<drive::RunOutcome> run_load(LoadFlags& flags);

}  // namespace nibble::cli
