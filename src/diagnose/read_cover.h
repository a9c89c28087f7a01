// Kernels timed on a GPU beside a load: the floor by its roofs as measured, and what covers a step.
//
//   NIBBLE_RETURN_IF_ERROR(read_bench(json, context, evidence));   // sets evidence.gpu
//   fill_gpu({.deployment = deployment, .served_on = "NVIDIA H200"}, evidence);
//   evidence.levels[0].cover, evidence.gpu->steps
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/cover.h"
#include "diagnose/evidence.h"
#include "ledger/step.h"

namespace nibble::diagnose {

struct GpuBeside {
  Deployment deployment;  // what served, on the machine that did
  std::string served_on;  // title or name of that machine's GPU; empty: nobody told
};

// A product to time, at the tokens that it has in the steps of the levels.
struct ProductToTime {
  std::string name;  // the ledger's of the first operation of that shape; "moe" of a layer
  RankProduct product;
  std::vector<std::int64_t> tokens;  // ascending; eight at most, spread evenly
};
// Those that differ, each once. `otherwise`: sequences of steps where no level tells.
Result<std::vector<ProductToTime>> products_to_time(const Deployment& deployment,
                                                    const Evidence& evidence,
                                                    const std::vector<double>& otherwise);

// By catalog name, alias or title.
bool is_same_gpu(std::string_view one, std::string_view other);

// Memory, sustained matrix rates and the gap between kernels as measured there.
void apply_measured_roofs(const GpuEvidence& gpu, MachineSpec& machine);

// Catalog entry of the GPU, or a machine of what it says of itself; roofs as measured replace the
// data sheet's. A run error where its memory was not measured and no catalog knows it.
Result<MachineSpec> measured_machine(const GpuEvidence& gpu);

// Where the GPU is of the kind that served: floors by its measured roofs, and the cover of every
// level. Else a sentence, and steps that explain nothing of the load. Levels must be there before.
void fill_gpu(const GpuBeside& beside, Evidence& evidence);

}  // namespace nibble::diagnose
