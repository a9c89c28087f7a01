// The operations of one pass of a pipeline stage, in execution order, before they are priced.
// Internal to the ledger.
#pragma once

#include <vector>

#include "ledger/sharding.h"
#include "ledger/step.h"

namespace nibble {

// What enters one pass (a microbatch) of a stage, seen from the busiest GPU.
struct Pass {
  bool prefill = false;
  double sequences = 0;      // of one attention group
  double rows = 0;           // tokens of one attention group
  double gathered_rows = 0;  // tokens of all attention groups that share dense layers
  double routed_rows = 0;    // tokens of the whole stage: what enters the experts
  double past = 0;           // tokens in the cache per sequence
  double logits_rows = 0;    // rows that need logits, of `gathered_rows`
};

// Layers that are alike share their operations.
struct LayerClass {
  LayerSpec layer;
  std::vector<Weight> weights;
  std::vector<double> count_of_stage;  // layers of this class in each stage
  std::size_t first = 0;               // index of the first such layer
};

struct StageContext {
  const Deployment& deployment;
  const Pass& pass;
  const RoutingStats* routing;  // null for dense models
};

std::vector<Op> layer_operations(const StageContext& context, const LayerClass& layer);
std::vector<Op> first_stage_operations(const StageContext& context,
                                       const std::vector<Weight>& outer);
std::vector<Op> last_stage_operations(const StageContext& context,
                                      const std::vector<Weight>& outer);
Op stage_transfer(const StageContext& context);

}  // namespace nibble
