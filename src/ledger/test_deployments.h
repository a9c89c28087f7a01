// Deployments of the catalog for the ledger's tests.
#pragma once

#include <gtest/gtest.h>
#include <string_view>

#include "ledger/step.h"
#include "model/config.h"

namespace nibble {

inline Deployment deployment_of(std::string_view model, std::string_view machine,
                                ParallelLayout layout = {}) {
  const Result<ModelSpec> found_model = load_model(model);
  const Result<MachineSpec> found_machine = load_machine(machine);
  EXPECT_TRUE(found_model.ok()) << (found_model.ok() ? "" : found_model.error().message);
  EXPECT_TRUE(found_machine.ok()) << (found_machine.ok() ? "" : found_machine.error().message);
  return {.model = found_model.value(), .machine = found_machine.value(), .layout = layout};
}

inline const Op& find_op(const Step& step, std::string_view name) {
  for (const Op& op : step.ops) {
    if (op.name == name) return op;
  }
  ADD_FAILURE() << "no operation " << name;
  return step.ops.front();
}

inline double total_weight_bytes(const Step& step, std::string_view name) {
  double total = 0;
  for (const Op& op : step.ops) {
    if (op.name == name) total += op.count * op.bytes.weight_bytes;
  }
  return total;
}

}  // namespace nibble
