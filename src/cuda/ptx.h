// PTX: a program as text, which the driver compiles for its GPU when it is loaded.
//
//   NIBBLE_ASSIGN_OR_RETURN(cubin.kernels, read_ptx_kernels(image, *parse_arch("compute_80")));
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/arch.h"
#include "cuda/cubin.h"

namespace nibble::cuda {

// An error for an image that is no text ending in its only zero byte: the driver would read on.
Result<> check_ptx_text(std::span<const std::byte> image);

// The kernels (.entry) of PTX for `arch`: names, sizes of parameters, launch bounds. What else
// KernelResources has is not known before the driver has compiled it.
Result<std::vector<KernelResources>> read_ptx_kernels(std::span<const std::byte> image,
                                                      const Arch& arch);

}  // namespace nibble::cuda
