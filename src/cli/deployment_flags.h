// The flags that describe a deployment, the same in every command that takes one.
//
//   CommandDef{.options = join(deployment_options(), {...})};
//   NIBBLE_ASSIGN_OR_RETURN(const Deployment deployment, deployment_from(arguments));
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "ledger/step.h"

namespace nibble::cli {

// --model --machine, then the layout, the load, and what overrides the machine's numbers.
std::vector<OptionDef> deployment_options();

// --model and --machine are required; everything else has a default.
Result<Deployment> deployment_from(const Arguments& arguments);

// The flags that describe a deployment which a case already names, and so may not stand beside it.
std::vector<std::string> flags_that_a_case_replaces();

// Applies what is not the model, the machine's name or the layout: machine overrides, formats,
// routing, link, collectives, efficiency, tile.
Result<> apply_overrides(const Arguments& arguments, Deployment& deployment);

Result<std::optional<PeakIs>> peak_is_from(const Arguments& arguments);

// "tp=4,pp=2,dp-attention" -> a layout.
Result<ParallelLayout> parse_layout(std::string_view text);

}  // namespace nibble::cli
