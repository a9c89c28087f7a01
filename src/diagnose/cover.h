// Which kernels a rank's step needs, and which of them were timed alone on a GPU: the sum of those
// is partial, and every other operation has the reason why nothing covers it.
//
//   for (const RankProduct& product : rank_products(step, deployment)) ...   // what to measure
//   const KernelCover cover = cover_of(step, deployment, gpu.rows);
//   cover.ms(), cover.floor_ms(), cover.open_floor_ms()
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "diagnose/evidence.h"
#include "formats/format.h"
#include "ledger/step.h"

namespace nibble::diagnose {

// What one measurement covers: a matrix, or a whole layer of experts (routing, both products,
// combine), at the tokens that enter it.
struct RankProduct {
  std::vector<std::size_t> ops;  // of the step; the two of a layer
  std::string part;              // "layer" or "dense", as rows call it; empty: see reason
  Format format = Format::kBf16;
  double experts = 1, top_k = 1;
  double n = 0, k = 0;  // of a layer: intermediate and hidden size
  double tokens = 0;    // whole ones, at least one
  std::string reason;   // why no kernel that nibble can time covers it
};

// Every operation of the step once, in its order.
std::vector<RankProduct> rank_products(const Step& step, const Deployment& deployment);

// Rows at other numbers of tokens count by straight lines between them (diagnose/curve.h).
KernelCover cover_of(const Step& step, const Deployment& deployment,
                     const std::vector<GpuRow>& rows);

}  // namespace nibble::diagnose
