#include "cli/serve_tuning.h"

#include <fmt/core.h>

#include "bench/tune_shapes.h"
#include "tactics/tune/cpu_layer.h"
#include "tactics/tune/cpu_site.h"

namespace nibble::cli {
namespace {

// The keys that `nibble tune` has for the same folder.
Result<tune::CpuLayer> layer_of(const ServeTuning& request, Format activations) {
  NIBBLE_ASSIGN_OR_RETURN(
      const std::vector<tune::TuningKey> keys,
      tuning_keys({.model = request.model.string(),
                   .tokens = {1},
                   .activations = activations == Format::kFp32 ? Format::kBf16 : activations}));
  const tune::TuningShape& first = keys.front().shape;
  return tune::CpuLayer{.experts = first.experts,
                        .top_k = first.top_k,
                        .hidden = first.k,
                        .intermediate = first.n / 2,
                        .format = first.format,
                        .activations = activations,
                        .isa = request.isa,
                        .threads = request.threads};
}

}  // namespace

Result<std::vector<std::string>> take_tuning(const ServeTuning& request,
                                             engine::ModelOptions& options) {
  NIBBLE_ASSIGN_OR_RETURN(tune::TuningFile file, tune::read_tuning(request.file));
  NIBBLE_ASSIGN_OR_RETURN(
      tune::TuningTable table,
      tune::TuningTable::for_run(std::move(file), request.file.string(), tune::cpu_tuning_site()));
  Result<tune::CpuLayer> layer = layer_of(request, options.activations);
  if (!layer.ok()) {
    return std::vector<std::string>{fmt::format("tuning file {} is not used: {}",
                                                request.file.string(), layer.error().message)};
  }
  layer->tokens = tokens_up_to(table, *layer, request.most_tokens);
  tune::CpuLayerChoices choices = choose_cpu_layer(table, *layer);
  options.experts_isa = choices.isa;
  options.expert_threads = std::move(choices.threads);
  return table.report();
}

}  // namespace nibble::cli
