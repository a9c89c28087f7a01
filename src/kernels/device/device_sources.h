// The device code of this room, as text in the program: what the run-time compiler is given.
//
//   compile({.name = "prepack", .files = device_sources(), .main =
//   "kernels/gemm/device/prepack.cuh",
//            .arch = device.info().arch()});
#pragma once

#include <span>

#include "cuda/compile.h"

namespace nibble {

// Every .cuh file and what these include, named below src/. NIBBLE_EVERY_LANE_ARRIVES=1 in the
// environment compiles them as racecheck can follow them (docs/gpu.md); it is read once.
std::span<const cuda::SourceFile> device_sources();

}  // namespace nibble
