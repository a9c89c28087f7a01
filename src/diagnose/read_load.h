// Parts of read_load(): what each member of nibble.load/1 says.
//
//   NIBBLE_RETURN_IF_ERROR(read_load_setting(setup, context, evidence.setting));
//   NIBBLE_RETURN_IF_ERROR(read_load_level(level, "levels[3]", context, evidence));
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "diagnose/evidence.h"
#include "diagnose/read_evidence.h"

namespace nibble::diagnose {

// Who served, with which limits, and how the prompts were drawn.
Result<> read_load_setting(const Json& setup, const ReadContext& context, Setting& setting);

// One member of levels[].
Result<> read_load_level(const Json& level, const std::string& where, const ReadContext& context,
                         Evidence& evidence);

// `series`: signals over time; windows and phases are on the same clock, whose zero is in
// Evidence::zero_ns.
Result<> read_load_series(const Json* series, const std::string& where, Evidence& evidence);

}  // namespace nibble::diagnose
