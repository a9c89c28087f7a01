#include "bench/tune_shapes.h"

#include "bench/cuda_bench.h"
#include "bench/memory_need.h"
#include "bench/model_shapes.h"

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
  NIBBLE_ASSIGN_OR_RETURN(const ModelShapes found,
                          shapes_on_cpu({.model = subject.model,
                                         .tp = subject.tp,
                                         .tokens = subject.tokens,
                                         .activations = subject.activations,
                                         .available_bytes = kAnyMemory}));
  std::vector<tune::TuningKey> keys;
  for (const BenchShape& shape : found.shapes) {
    if (shape.name != "moe.gate_up" && shape.name != "moe.down") continue;
    for (tune::TuningKey& key : tune::keys_of(tuning_shape(shape), subject.tokens)) {
      // What only a GPU takes as it is: fp16, and 4-bit codes.
      if (subject.activations && shape.format != Format::kBf16) {
        key.shape.activations = *subject.activations;
      }
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

Result<> check_tuning_keys(const std::vector<tune::TuningKey>& keys, bool on_gpu) {
  for (const tune::TuningKey& key : keys) {
    const BenchShape shape = bench_shape(key.shape, {key.tokens});
    NIBBLE_RETURN_IF_ERROR(on_gpu ? check_cuda_shape(shape) : check_shape(shape));
  }
  return {};
}

Result<> check_tuning_memory(const std::vector<tune::TuningKey>& keys, double available_bytes) {
  for (const tune::TuningKey& key : keys) {
    NIBBLE_RETURN_IF_ERROR(check_memory(bench_shape(key.shape, {key.tokens}), available_bytes));
  }
  return {};
}

}  // namespace nibble
