// A model's grouped products as keys of the tuner, and back.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto keys, tuning_keys({.model = "glm-5-nvfp4", .tp = 8,
//                                                         .tokens = {1, 16, 64}}));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/rig.h"
#include "tactics/tune/key.h"

namespace nibble {

tune::TuningShape tuning_shape(const BenchShape& shape);
BenchShape bench_shape(const tune::TuningShape& shape, std::vector<std::int64_t> tokens);

// The two products of a layer of experts [hidden k, intermediate n]: "moe.gate_up", "moe.down".
tune::TuningShape gate_up_of_layer(const BenchShape& layer);
tune::TuningShape down_of_layer(const BenchShape& layer);

struct TuningSubject {
  std::string model;  // a catalog name, a file or a folder
  std::int64_t tp = 1;
  std::vector<std::int64_t> tokens;
  std::optional<Format> activations;  // nullopt: the checkpoint's
};

// "moe.gate_up" and "moe.down" on one rank, at each number of tokens. An input error for a model
// without experts in 4-bit or bf16 weights.
Result<std::vector<tune::TuningKey>> tuning_keys(const TuningSubject& subject);

// A usage error for a key that no kernel there takes, before anything is measured or written: its
// formats, its sides, too many tokens.
Result<> check_tuning_keys(const std::vector<tune::TuningKey>& keys, bool on_gpu);
// The same for what a CPU has no memory for.
Result<> check_tuning_memory(const std::vector<tune::TuningKey>& keys, double available_bytes);

}  // namespace nibble
