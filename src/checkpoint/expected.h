// The tensors that a model's configuration calls for, under the names of checkpoints: one entry a
// matrix (gate and up apart, every expert apart) and one a vector.
//
//   const ExpectedTensors expected = expect_tensors(model, is_stacked);
//   expected.matrices[0].name   // "model.layers.0.self_attn.q_a_proj"
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/spec.h"

namespace nibble {

struct ExpectedMatrix {
  std::string name;         // a module, or with fused experts "...mlp.experts.gate_up_proj"
  std::int64_t copies = 0;  // experts of a stack; 0: a matrix of its own
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool bias = false;  // it must come with a bias
  bool mtp = false;   // without it only speculative decoding is lost
};

struct ExpectedVector {
  std::vector<std::string> names;  // spellings, the usual one first: tensors, not modules
  std::int64_t elements = 0;
  bool mtp = false;
};

struct ExpectedTensors {
  std::vector<ExpectedMatrix> matrices;
  std::vector<ExpectedVector> vectors;
};

// `is_stacked(module)`: whether the checkpoint holds the experts of "...mlp.experts" in one tensor.
// The header decides that, not the family's habit.
ExpectedTensors expect_tensors(const ModelSpec& model,
                               const std::function<bool(const std::string&)>& is_stacked);

// Names of gate, up and down below an expert: "gate_proj", "up_proj", "down_proj" or w1, w3, w2.
std::string up_name(const ModuleNames& names);

// The prefix of layer `layer`'s block with experts: "model.layers.3.mlp.".
std::string block_prefix(const ModelSpec& model, std::size_t layer);

}  // namespace nibble
