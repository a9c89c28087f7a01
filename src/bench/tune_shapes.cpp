#include "bench/tune_shapes.h"

#include "bench/model_shapes.h"
#include "machine/spec.h"
#include "model/config.h"

namespace nibble {

tune::TuningShape tuning_shape(const BenchShape& shape) {
  return {.op = shape.name,
          .experts = shape.experts,
          .top_k = shape.top_k,
          .n = shape.n,
          .k = shape.k,
          .format = shape.format,
          .activations = shape.activations};
}

BenchShape bench_shape(const tune::TuningShape& shape, std::vector<std::int64_t> tokens) {
  return {.op = BenchOp::kGemm,
          .name = shape.op,
          .format = shape.format,
          .activations = shape.activations,
          .experts = shape.experts,
          .top_k = shape.top_k,
          .n = shape.n,
          .k = shape.k,
          .tokens = std::move(tokens)};
}

tune::TuningShape gate_up_of_layer(const BenchShape& layer) {
  tune::TuningShape shape = tuning_shape(layer);
  shape.op = "moe.gate_up";
  shape.n = 2 * layer.n;
  return shape;
}

tune::TuningShape down_of_layer(const BenchShape& layer) {
  tune::TuningShape shape = tuning_shape(layer);
  shape.op = "moe.down";
  shape.n = layer.k;
  shape.k = layer.n;
  return shape;
}

Result<std::vector<tune::TuningKey>> tuning_keys(const TuningSubject& subject) {
  constexpr double kAnyMemory = 1e15;  // what does not fit says so when it is tried
  Deployment deployment;
  NIBBLE_ASSIGN_OR_RETURN(deployment.model, load_model(subject.model));
  // The ledger's shapes do not depend on the machine; its numbers are not used.
  NIBBLE_ASSIGN_OR_RETURN(deployment.machine, load_machine("h200"));
  deployment.layout.tp = static_cast<int>(subject.tp);
  deployment.link = LinkSpeed{1, 1};
  deployment.context = 1;  // nor on how long sequences are
  deployment.activations = subject.activations;
  NIBBLE_ASSIGN_OR_RETURN(const ModelShapes found,
                          model_shapes(deployment, subject.tokens, kAnyMemory));
  std::vector<tune::TuningKey> keys;
  for (const BenchShape& shape : found.shapes) {
    if (shape.name != "moe.gate_up" && shape.name != "moe.down") continue;
    for (tune::TuningKey& key : tune::keys_of(tuning_shape(shape), subject.tokens)) {
      if (subject.activations) key.shape.activations = *subject.activations;
      keys.push_back(std::move(key));
    }
  }
  if (keys.empty()) {
    return input_error(
        "{} has no experts in a format that a kernel takes: there is nothing to tune",
        subject.model);
  }
  return keys;
}

}  // namespace nibble
