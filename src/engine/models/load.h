// From a checkpoint folder to a model that can be stepped.
//
//   NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
//                           load_checkpoint_model(folder, {.kv_format = Format::kBf16}, pool));
//   NIBBLE_RETURN_IF_ERROR(model->reserve({.blocks = 512, .block_tokens = 16, .most_rows = 256,
//                                          .most_logits = 64}));
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/model.h"
#include "formats/format.h"
#include "kernels/moe/moe.h"
#include "machine/isa.h"

namespace nibble::engine {

struct ModelOptions {
  Format kv_format = Format::kFp32;    // of keys and values in the cache: kFp32 or kBf16
  Format activations = Format::kFp32;  // that meet 4-bit weights: kFp32, kBf16, kInt8 or kNvfp4
  Isa isa = best_isa();
  // Of the 4-bit experts, as a tuner chose (docs/tuning.md): the instruction set that their weights
  // are packed for, nullopt `isa`; and the threads of their products.
  std::optional<Isa> experts_isa = std::nullopt;
  MoeThreads expert_threads = {};
  // Added to the router's logit of expert 0 in every MoE layer: a fault on purpose, one hot expert.
  float router_bias = 0;
};

// An input error for whatever nibble inspect calls one, for an architecture or a feature that no
// model here has, by name, and for options out of range. The folder may go when this has returned.
Result<std::unique_ptr<Model>> load_checkpoint_model(const std::filesystem::path& folder,
                                                     const ModelOptions& options, ThreadPool& pool);

}  // namespace nibble::engine
