#include "ledger/shares.h"

#include <algorithm>

namespace nibble {

bool is_expert_gemm(const Op& op) {
  return op.name == "moe.gate_up" || op.name == "moe.down";
}

StepShares shares_of(const Step& step) {
  StepShares shares;
  for (const Op& op : step.ops) {
    shares.launches += op.count * op.launch_us;
    if (op.link_us > 0) {
      shares.collectives += op.count * std::max({op.memory_us, op.compute_us, op.link_us});
      continue;
    }
    const double dram = op.bytes.dram();
    const double us_per_byte = dram > 0 ? op.count * op.memory_us / dram : 0;
    (is_expert_gemm(op) ? shares.expert_weights : shares.other_weights) +=
        us_per_byte * op.bytes.weight_bytes;
    shares.kv += us_per_byte * op.bytes.kv_bytes;
    shares.activations += us_per_byte * op.bytes.activation_bytes;
    shares.compute += op.count * std::max(0.0, op.compute_us - op.memory_us);
  }
  shares.pipeline_bubble = step.pipeline_bubble_us;
  return shares;
}

}  // namespace nibble
