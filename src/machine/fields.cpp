#include "machine/fields.h"

#include <cmath>
#include <fmt/core.h>

namespace nibble {

std::string number_fault(double value, const NumberRule& rule) {
  if (!std::isfinite(value)) return fmt::format("is {}; it must be a finite number", value);
  if (value < rule.min || value > rule.max) {
    return fmt::format("is {}; it must be from {} to {}{}", value, rule.min, rule.max, rule.unit);
  }
  if (rule.whole && std::floor(value) != value) {
    return fmt::format("is {}; it must be a whole number", value);
  }
  return "";
}

std::string shared_memory_fault(const MachineSpec& machine) {
  const std::optional<Sourced>& block = machine.shared_per_block_bytes;
  const std::optional<Sourced>& sm = machine.shared_per_sm_bytes;
  if (!block || !sm || block->value <= sm->value) return "";
  return fmt::format("is {}, more than the {} of a whole SM", block->value, sm->value);
}

std::string sparse_fault(const Peak& peak) {
  if (!peak.sparse_tflops || peak.sparse_tflops->value >= peak.dense_tflops.value) return "";
  return fmt::format("is {}, below the dense {}; were the two exchanged?",
                     peak.sparse_tflops->value, peak.dense_tflops.value);
}

}  // namespace nibble
