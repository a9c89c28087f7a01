// The kernel that quantizes rows of activations on a GPU, compiled for one shape.
//
//   NIBBLE_ASSIGN_OR_RETURN(const QuantizeKernel quantize,
//                           QuantizeKernel::make(gpu, {.columns = 6144}));
//   quantize.enqueue(stream, {.x = x, .codes = codes, .scales = scales, .factor = 2e-4F,
//                             .rows = 64});
//
// It waits itself for the kernel before it (griddepcontrol), and only then lets the next one begin.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/module.h"
#include "kernels/moe/device/quantize_rows.h"

namespace nibble {

// An input error for columns that are not whole blocks, with the numbers, and for fp32 rows.
Result<> check_quantize(const QuantizeShape& shape);

// For any architecture from sm_80 on.
Result<cuda::Cubin> compile_quantize(const QuantizeShape& shape, const std::string& arch);

class QuantizeKernel {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too.
  static Result<QuantizeKernel> make(const cuda::Device& device, const QuantizeShape& shape,
                                     const std::string& arch = "");

  const QuantizeShape& shape() const { return shape_; }

  // Neither allocates nor waits; may be captured.
  Result<> enqueue(cuda::Stream& stream, const QuantizeRows& params) const;

 private:
  QuantizeKernel(const QuantizeShape& shape, cuda::Kernel kernel, bool programmatic)
      : shape_(shape), kernel_(std::move(kernel)), programmatic_(programmatic) {}

  QuantizeShape shape_;
  cuda::Kernel kernel_;
  bool programmatic_;
};

}  // namespace nibble
