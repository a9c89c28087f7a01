// The choices of a tuning file for a layer of experts on the CPU, as the plain values that the
// layer is made with: rooms below this one never see the file.
//
//   TuningTable table = TuningTable::load(path, cpu_tuning_site());
//   const CpuLayerChoices choices = choose_cpu_layer(table, layer);
//   MoeConfig config{.isa = choices.isa, .threads = choices.threads};
//   for (const std::string& line : table.report()) ...   // which keys hit, which not, and why
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/moe/moe.h"
#include "machine/isa.h"
#include "tactics/tune/table.h"

namespace nibble::tune {

// A layer of experts, as it is about to be made.
struct CpuLayer {
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  // of one expert on this rank
  Format format = Format::kNvfp4;
  Format activations = Format::kBf16;
  std::vector<std::int64_t> tokens;  // that its calls will have
  std::optional<Isa> isa;            // asked for by name; nullopt: the file's choice may have it
  int threads = 1;                   // of the pool
};

struct CpuLayerChoices {
  Isa isa = best_isa();
  MoeThreads threads;
};

// Its two products, as keys have them. fp32 activations are those of bf16: the products run the
// same code on both, and only what is rounded before differs (kernels/gemm/gemm.h).
TuningShape gate_up_shape(const CpuLayer& layer);
TuningShape down_shape(const CpuLayer& layer);

// Asks for both products at each number of tokens. The weights are packed once, for one instruction
// set: that of all choices found if they agree and none was asked for by name. A choice that cannot
// be had then is refused in the table, and the default is taken.
CpuLayerChoices choose_cpu_layer(TuningTable& table, const CpuLayer& layer);

// The numbers of tokens to ask for where a layer gets 1 to `most` in a call: powers of two, `most`,
// and the ends of what the file holds in between.
std::vector<std::int64_t> tokens_up_to(const TuningTable& table, const CpuLayer& layer,
                                       std::int64_t most);

}  // namespace nibble::tune
