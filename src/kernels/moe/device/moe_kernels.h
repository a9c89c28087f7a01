// The kernels around the grouped products of a layer, compiled for one shape: which experts every
// token meets, the lists that follow, tokens to slots, and slots to tokens.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MoeKernels kernels, MoeKernels::make(gpu, shape));
//   kernels.route(stream, top_k, tables);   // from logits: one or two launches
//   kernels.gather(stream, {.x = x, .choice_slot = slots_of, .slots = tiles, .tokens = 32});
//   ... the products ...
//   kernels.combine(stream, {.rows = rows, .choice_slot = slots_of, .y = y, .tokens = 32});
//
// Parameters hold addresses of device memory. Nothing here allocates or waits, everything can be
// captured into a graph. Each kernel waits itself for the one before it (griddepcontrol), and only
// then lets the next one begin: what a kernel reads before its wait may be what the last but one
// before it wrote.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/module.h"
#include "kernels/moe/device/moe_shape.h"
#include "kernels/moe/router.h"

namespace nibble {

// An input error for a router that does not fit together or has more experts than
// kMostDeviceExperts, and for a hidden size that is odd or not from 2 to 2^24.
Result<MoeShape> moe_shape(const RouterConfig& router, std::int64_t hidden, Element output);

// As C++ that initialises one.
std::string cpp_text_of(const MoeShape& shape);

// For any architecture.
Result<cuda::Cubin> compile_moe_kernels(const MoeShape& shape, const std::string& arch);

class MoeKernels {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too: "compute_80" makes the
  // code of an earlier GPU, without programmatic launch.
  static Result<MoeKernels> make(const cuda::Device& device, const MoeShape& shape,
                                 const std::string& arch = "");

  const MoeShape& shape() const { return shape_; }

  // Ids and weights, and with them the tables: one launch for few tokens, otherwise two.
  Result<> route(cuda::Stream& stream, const RouteTopK& top_k, const RouteTables& tables) const;
  // Ids and weights alone.
  Result<> top_k(cuda::Stream& stream, const RouteTopK& params) const;
  // The tables from ids and weights that are there.
  Result<> tables(cuda::Stream& stream, const RouteTables& params) const;
  Result<> gather(cuda::Stream& stream, const GatherRows& params) const;
  Result<> combine(cuda::Stream& stream, const CombineRows& params) const;

 private:
  struct Kernels {
    cuda::Kernel top_k;
    cuda::Kernel tables;
    cuda::Kernel fused;  // where the shape has one; else `tables`
    cuda::Kernel gather;
    cuda::Kernel combine;
  };
  MoeKernels(const cuda::Device& device, const MoeShape& shape, bool programmatic, Kernels kernels)
      : shape_(shape),
        sms_(device.info().sms),
        programmatic_(programmatic),
        kernels_(std::move(kernels)) {}

  cuda::Launch launch_of(std::int64_t items, int per_block, int threads) const;

  MoeShape shape_;
  int sms_;
  bool programmatic_;
  Kernels kernels_;
};

}  // namespace nibble
