#include "kernels/device/device_sources.h"

#include <vector>

#include "base/embedded.h"

namespace nibble {

namespace embedded {
std::span<const EmbeddedFile> kernel_sources();
}  // namespace embedded

std::span<const cuda::SourceFile> device_sources() {
  static const std::vector<cuda::SourceFile> sources = [] {
    std::vector<cuda::SourceFile> files;
    for (const EmbeddedFile& file : embedded::kernel_sources()) {
      files.push_back({file.name, file.text});
    }
    return files;
  }();
  return sources;
}

}  // namespace nibble
