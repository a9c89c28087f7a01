// The CPU's grouped products for the tuner: which instruction set, and how many threads.
//
//   NIBBLE_ASSIGN_OR_RETURN(auto backend, make_cpu_tuner({.routing = routing}));
//   tune::tune_keys(*backend, request, steady_now, unix_now, progress);
//
// Nothing else can be varied without other bits or other code: how weights are blocked belongs to
// the instruction set, and work is shared out by itself.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "bench/rig.h"
#include "bench/route_draw.h"
#include "tactics/tune/backend.h"

namespace nibble {

struct CpuTuneSetup {
  RouteDraw routing;
  std::uint64_t seed = 1;
  bool cold = true;  // weights come from memory
};

std::unique_ptr<tune::TuneBackend> make_cpu_tuner(const CpuTuneSetup& setup);

// The best instruction set, on all processors.
tune::CpuTactic default_cpu_tactic();
// Instruction sets that this processor has not are there too.
std::vector<tune::CpuTactic> cpu_tactics(int processors);

}  // namespace nibble
