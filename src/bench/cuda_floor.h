// What a run on a GPU has to move and to compute at least, and the shortest time of it.
//
//   const CudaWork work = moe_work(shape, 64, count_experts(ids, shape.experts));
//   const CudaFloor floor = floor_of(work, {.read_gb_s = 4700, .matrix_tflops = 774});
//
// Bytes of a layer: the weights of the experts that were met, as stored canonically; x once, the
// intermediate and the down product's rows written and read, y once. FLOP: 2 for each weight and
// slot. With 4-bit activations x still comes in 16 bits, and the intermediate is its codes and
// scales; a product alone reads codes and writes 16 bits.
#pragma once

#include <cstdint>

#include "bench/rig.h"
#include "bench/route_draw.h"

namespace nibble {

bool is_four_bit(Format format);  // nvfp4 or mxfp4

struct CudaWork {
  double weight_bytes = 0;
  double activation_bytes = 0;
  double flop = 0;
  double distinct = 1;  // experts met
  double slots = 0;     // rows of all experts
  double bytes() const { return weight_bytes + activation_bytes; }
};

// A mixture-of-experts layer: hidden k, intermediate n.
CudaWork moe_work(const BenchShape& shape, std::int64_t tokens, const ExpertCounts& counts);
// One grouped product of a layer.
enum class ProductPart { kGateUp, kDown };  // [2 I, H] with its activation, or [H, I]
CudaWork part_work(const BenchShape& shape, ProductPart part, std::int64_t tokens,
                   const ExpertCounts& counts);
// An ordinary product of one matrix [n, k].
CudaWork dense_work(const BenchShape& shape, std::int64_t tokens);

struct CudaRoofsNow {
  double read_gb_s = 0;
  double matrix_tflops = 0;
};

struct CudaFloor {
  double memory_us = 0;
  double compute_us = 0;
  double us() const { return memory_us > compute_us ? memory_us : compute_us; }
};
// `cold` false: weights and activations are in the cache, and cost no time on their way.
CudaFloor floor_of(const CudaWork& work, const CudaRoofsNow& roofs, bool cold = true);

}  // namespace nibble
