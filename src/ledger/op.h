// A row of the step ledger: one operation of one rank, `count` times per step, and its floor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/format.h"

namespace nibble {

enum class Regime { kMemory, kCompute, kLink, kLaunch };
std::string_view to_string(Regime regime);  // "memory", "compute", "link", "launch"

// Bytes that one execution moves. weight_bytes includes scale_bytes ("of which").
struct OpBytes {
  double weight_bytes = 0;
  double scale_bytes = 0;
  double kv_bytes = 0;
  double activation_bytes = 0;
  double link_bytes = 0;  // sent over the link; not DRAM traffic
  double dram() const { return weight_bytes + kv_bytes + activation_bytes; }
};

// [m, n, k] of a (grouped) GEMM on this rank; m is a mean when groups > 1.
struct OpShape {
  double groups = 1;
  double m = 0;
  double n = 0;
  double k = 0;
  std::string text;  // "256 x [32, 512, 6144]", "1024 seqs x 4096 tokens"
};

struct Op {
  std::string name;  // "moe.gate_up"; the list is in docs/arithmetic.md
  double count = 1;  // executions per step
  OpShape shape;
  std::string format;  // "nvfp4 x nvfp4", "bf16", of weights x activations
  OpBytes bytes;       // of one execution
  double flop = 0;     // of one execution
  Precision precision = Precision::kBf16;
  double launches = 1;  // kernels of one execution

  // Filled by price_ops (ledger/step.cpp), of one execution:
  double memory_us = 0;
  double compute_us = 0;  // FLOP / peak, every matrix unit busy
  double tile_us = 0;     // compute_us with idle SMs and padded rows of the given tile; else equal
  double link_us = 0;
  double launch_us = 0;             // gap before its kernels
  double floor_us = 0;              // max(memory, compute, link) + launch
  Regime regime = Regime::kMemory;  // the largest term
  double tensor_activity = 0;       // compute_us / floor_us: what a perfect run would show
  double dram_activity = 0;         // memory_us / floor_us
  std::optional<double> coverage;   // tiles over SM slots of whole waves, when a tile is given
  std::optional<double> padding;    // real rows over rows of whole tiles, when a tile is given
  std::string misaligned;  // why the quantization's blocks do not divide this GPU's share; "" fine
  std::string note;        // what is replicated, padded or assumed
};

}  // namespace nibble
