// A step's floor by what its time goes to: the terms that every waterfall begins with.
//
//   const StepShares shares = shares_of(step);
//   shares.expert_weights + ... + shares.pipeline_bubble     // step.step_us
#pragma once

#include "ledger/op.h"
#include "ledger/step.h"

namespace nibble {

// us a step; they add up to the floor exactly.
struct StepShares {
  double expert_weights = 0;
  double other_weights = 0;
  double kv = 0;
  double activations = 0;
  double compute = 0;      // matrix units beyond the memory time of the same operations
  double collectives = 0;  // operations that use the link
  double launches = 0;     // gaps between kernels
  double pipeline_bubble = 0;
};

// The grouped products of the routed experts.
bool is_expert_gemm(const Op& op);

StepShares shares_of(const Step& step);

}  // namespace nibble
