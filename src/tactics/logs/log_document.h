// nibble.tactics_log/1: logs of autotuners and what they say for a chip
// (docs/schemas/nibble.tactics_log.1.json).
//
//   const Json document = log_document(logs, kSm120Limits, conclusions(logs, kSm120Limits));
//   fmt::print("{}\n", document.dump());
#pragma once

#include <span>

#include "base/finding.h"
#include "base/json.h"
#include "kernels/device/block_limits.h"
#include "tactics/logs/tactic_log.h"

namespace nibble::logs {

Json log_document(std::span<const TacticLog> logs, const BlockLimits& limits,
                  std::span<const Finding> findings);

}  // namespace nibble::logs
