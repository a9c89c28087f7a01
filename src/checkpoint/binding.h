// Every tensor of a checkpoint is used, ignored with a reason, or an error. What a matrix is, the
// header says; what the configuration claims is compared with it.
//
//   const Binding binding = Binding::make(checkpoint);
//   NIBBLE_RETURN_IF_ERROR(binding.faults().refuse(checkpoint.path()));
//   const BoundMatrix* gate = binding.find("model.layers.3.mlp.experts.0.gate_proj");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/region.h"
#include "checkpoint/stored_matrix.h"

namespace nibble {

struct BoundMatrix {
  StoredMatrix stored;
  Region region = Region::kOther;
  std::optional<ModuleFormat> claimed;  // nothing without a configuration
  bool agrees = true;                   // the claim, in format and size of blocks
  bool expected = false;                // the configuration calls for it
  // Multipliers, read from the file. Nothing where the dialect has none or it is missing; a value
  // that cannot be used is a fault and still stands here.
  std::optional<float> factor;
  std::optional<float> input_scale;
  // The same as they stand in the file.
  float stored_factor = 0;
  float stored_input = 0;
};

struct IgnoredTensors {
  std::string reason;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> examples;  // up to eight
};

struct KvScale {
  std::string tensor;
  float value = 1;
};

// The three matrices of one expert. With a stack gate and up are the same matrix, and `copy` is the
// expert's place in it.
struct ExpertBinding {
  const BoundMatrix* gate = nullptr;
  const BoundMatrix* up = nullptr;
  const BoundMatrix* down = nullptr;
  std::int64_t copy = 0;
};

class Binding {
 public:
  // Never fails: what is wrong stands in faults(), which include the checkpoint's own. The
  // checkpoint must live as long as the binding.
  static Binding make(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const std::vector<BoundMatrix>& matrices() const { return matrices_; }  // by name
  const BoundMatrix* find(std::string_view name) const;
  std::optional<ExpertBinding> expert(std::size_t layer, std::int64_t expert) const;
  // Of checkpoint().tensors()[number].
  Region region(std::size_t number) const { return regions_[number]; }
  const std::vector<IgnoredTensors>& ignored() const { return ignored_; }
  const std::vector<KvScale>& kv_scales() const { return kv_scales_; }
  const FaultLog& faults() const { return faults_; }

 private:
  friend class Binder;
  Binding() = default;

  const Checkpoint* checkpoint_ = nullptr;
  std::vector<Region> regions_;  // of each tensor
  std::vector<BoundMatrix> matrices_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // into matrices_
  std::vector<IgnoredTensors> ignored_;
  std::vector<KvScale> kv_scales_;
  FaultLog faults_;
};

// The fp32 (or bf16) number that a tensor of one element holds; an error when it cannot be read.
Result<float> read_scalar(const Checkpoint& checkpoint, const StoredTensor& tensor);

}  // namespace nibble
