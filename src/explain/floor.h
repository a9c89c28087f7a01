// What the floor alone says, before anything is measured.
//
//   for (const Finding& finding : *floor_findings(deployment, step, capacity)) ...
#pragma once

#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "ledger/step.h"

namespace nibble {

// Parameters, the step and its largest operations, what is replicated, experts touched, capacity
// against the step's concurrency, and what hangs on how the peak and the collectives are meant.
Result<std::vector<Finding>> floor_findings(const Deployment& deployment, const Step& step,
                                            const Capacity& capacity);

}  // namespace nibble
