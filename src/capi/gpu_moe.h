// A layer of experts on a GPU behind one interface, whatever multiplies its weights.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto layer, make_gpu_moe(gpu, desc, config, weights));
//   NIBBLE_ASSIGN_OR_RETURN(auto workspace, layer->make_workspace(64));
//   layer->run(*workspace, {.x = x, .expert_ids = ids, .expert_weights = w, .y = y, .tokens = 64},
//              stream);
#pragma once

#include <cstdint>
#include <memory>
#include <nibble/nibble.h>
#include <string>

#include "base/result.h"
#include "capi/handles.h"
#include "cuda/stream.h"
#include "kernels/moe/device/moe_cuda_layer.h"
#include "kernels/moe/device/moe_cuda_memory.h"
#include "kernels/moe/moe.h"

namespace nibble::capi {

class GpuMoeWorkspace {
 public:
  virtual ~GpuMoeWorkspace() = default;
  virtual std::int64_t most_tokens() const = 0;
  virtual Result<std::int64_t> dropped_choices() const = 0;
};

class GpuMoe {
 public:
  virtual ~GpuMoe() = default;
  virtual std::string layer() const = 0;
  virtual std::string tactics() const = 0;
  virtual bool software_mma() const = 0;
  virtual Result<std::unique_ptr<GpuMoeWorkspace>> make_workspace(
      std::int64_t most_tokens) const = 0;
  // The workspace is of a layer of the same operand.
  virtual Result<> run(GpuMoeWorkspace& workspace, const CudaMoeCall& call,
                       cuda::Stream& stream) const = 0;
};

// The GPU's context is current. Layers of one description share their kernels while one lives.
Result<std::unique_ptr<GpuMoe>> make_gpu_moe(Gpu& gpu, const nibble_moe_desc& desc,
                                             const CudaMoeConfig& config,
                                             const MoeWeights& weights);

}  // namespace nibble::capi
