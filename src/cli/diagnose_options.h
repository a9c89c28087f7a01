// The options of `nibble diagnose`: its own, and those of `nibble load` that say whom to ask and
// how.
#pragma once

#include <vector>

#include "cli/command.h"

namespace nibble::cli {

std::vector<OptionDef> diagnose_options();

// Whether it says how to ask a server, and not what is served or what is shown.
bool loads_a_server(const OptionDef& option);

// What `nibble load` would have been given: without the options that only a diagnosis has, and
// those that mean something else here (--trace).
Arguments load_arguments(const Arguments& arguments);

}  // namespace nibble::cli
