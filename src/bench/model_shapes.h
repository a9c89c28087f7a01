// The products of a model's decode step on one rank, through the ledger: what `nibble bench
// --model` measures.
//
//   NIBBLE_ASSIGN_OR_RETURN(const ModelShapes shapes, model_shapes(deployment, {1, 8, 64}, 16e9));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/rig.h"
#include "ledger/step.h"

namespace nibble {

struct ModelShapes {
  std::vector<BenchShape> shapes;  // those that differ, named as the ledger names the first
  std::vector<std::string> notes;  // what is left out, and why
};

// `deployment.activations` replaces what the checkpoint asks for. Experts that exceed half of
// `available_bytes` are left out, and the shape's note says so.
Result<ModelShapes> model_shapes(const Deployment& deployment,
                                 const std::vector<std::int64_t>& tokens, double available_bytes);

// The same of a model's rank as a CPU multiplies it: of `nibble bench --model` and `nibble tune`,
// so that both take the activations of the checkpoint where a CPU takes them as they are.
struct CpuRank {
  std::string model;  // a catalog name, a file or a folder
  std::int64_t tp = 1;
  std::vector<std::int64_t> tokens;
  std::optional<Format> activations;  // nullopt: the checkpoint's
  double available_bytes = 0;
};
Result<ModelShapes> shapes_on_cpu(const CpuRank& rank);

// The layer of experts on one rank, of those products: an input error when there is none that
// `kernel` ("a CPU kernel") takes.
Result<std::vector<BenchShape>> layer_of_model(std::string_view model, const ModelShapes& products,
                                               std::string_view kernel);

// "nvfp4 x bf16" of an Op; nullopt when it names one format only.
struct FormatPair {
  Format weights = Format::kBf16;
  Format activations = Format::kBf16;
};
std::optional<FormatPair> parse_format_pair(std::string_view text);

}  // namespace nibble
