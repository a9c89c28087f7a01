#include "kernels/device/device_sources.h"

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/embedded.h"

namespace nibble {

namespace embedded {
std::span<const EmbeddedFile> kernel_sources();
}  // namespace embedded

namespace {

// ptx/warp_arrival.cuh says what for.
cuda::SourceFile options() {
  const char* chosen = std::getenv("NIBBLE_EVERY_LANE_ARRIVES");
  const bool every_lane = chosen != nullptr && std::string_view(chosen) == "1";
  return {"kernels/device/options.cuh",
          every_lane ? "#pragma once\n#define NIBBLE_EVERY_LANE_ARRIVES 1\n"
                     : "#pragma once\n#define NIBBLE_EVERY_LANE_ARRIVES 0\n"};
}

}  // namespace

std::span<const cuda::SourceFile> device_sources() {
  static const std::vector<cuda::SourceFile> sources = [] {
    std::vector<cuda::SourceFile> files{options()};
    for (const EmbeddedFile& file : embedded::kernel_sources()) {
      files.push_back({file.name, file.text});
    }
    return files;
  }();
  return sources;
}

}  // namespace nibble
