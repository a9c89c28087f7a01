// What the configuration claims of the matrices, held against what the header says.
#include <fmt/core.h>
#include <map>

#include "checkpoint/binding_parts.h"

namespace nibble {

void compare_claims(const Quantization& claims, std::vector<BoundMatrix>& matrices, FaultLog& log) {
  for (BoundMatrix& matrix : matrices) {
    // Claims are made of the language model. The head of an MTP layer is a copy of lm_head.
    if (matrix.region == Region::kVision) continue;
    const bool head = matrix.stored.name.ends_with(".shared_head.head");
    matrix.claimed = claims.format_of(head ? "lm_head" : matrix.stored.module);
    const Format found = matrix.stored.format;
    const Format claimed = matrix.claimed->weights;
    if (formats_agree(found, claimed) || !matrix.stored.sound) continue;
    log.add(Severity::kWarning, "config-contradicts-header", matrix.stored.name,
            fmt::format("is {} by the header and {} by the configuration; the header is followed, "
                        "but other engines may follow the configuration",
                        to_string(found), to_string(claimed)));
  }
}

// A static scale for NVFP4 activations is there for all matrices that are to have one, or for none.
void compare_activations(const std::vector<BoundMatrix>& matrices, FaultLog& log) {
  struct Count {
    std::uint64_t with = 0, without = 0;
  };
  std::map<Region, Count> counts;
  const auto wants = [](const BoundMatrix& matrix) {
    return matrix.stored.format == Format::kNvfp4 && matrix.stored.sound &&
           (!matrix.claimed || matrix.claimed->activations == Format::kNvfp4);
  };
  for (const BoundMatrix& matrix : matrices) {
    if (!wants(matrix)) continue;
    Count& count = counts[matrix.region];
    ++(matrix.stored.input != nullptr ? count.with : count.without);
  }
  for (const BoundMatrix& matrix : matrices) {
    if (!wants(matrix) || matrix.stored.input != nullptr) continue;
    if (counts[matrix.region].with > 0) {
      log.add(Severity::kError, "missing-input-scale", matrix.stored.name,
              "has no scale for its NVFP4 activations although others have: calibration did not "
              "reach it; calibrate it, or multiply it by bf16 activations");
    } else {
      log.add(Severity::kWarning, "no-input-scales", matrix.stored.name,
              "the configuration claims NVFP4 activations, but no matrix of its kind has a scale "
              "for them; they can only be scaled as they come, or stay bf16");
    }
  }
}

}  // namespace nibble
