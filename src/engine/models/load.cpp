#include "engine/models/load.h"

#include <utility>

#include "base/text.h"
#include "checkpoint/binding.h"
#include "engine/models/qwen3_moe.h"

namespace nibble::engine {
namespace {

// Layers that config.json does not count may be of an MTP head, which these architectures have not:
// without them the text would be another one, and nobody would know.
Result<> refuse_missing_layers(const FaultLog& log, const std::string& path) {
  for (const Fault& fault : log.faults()) {
    if (fault.id == "layer-not-configured") return input_error("{}: {}", path, fault.text());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_checkpoint_model(const std::filesystem::path& folder,
                                                     const ModelOptions& options,
                                                     ThreadPool& pool) {
  NIBBLE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(folder));
  if (!checkpoint.model()) {
    NIBBLE_RETURN_IF_ERROR(checkpoint.faults().refuse(checkpoint.path()));
    return input_error("{}: has no config.json that says what model it is", checkpoint.path());
  }
  // Before the tensors: of a model that is not served it does not matter whether they are whole.
  const std::string& architecture = checkpoint.model()->architecture;
  if (architecture != "Qwen3MoeForCausalLM" && architecture != "Qwen2MoeForCausalLM") {
    return input_error(
        "{}: architecture \"{}\" is not served; nibble serves Qwen3MoeForCausalLM and "
        "Qwen2MoeForCausalLM",
        checkpoint.path(), printable(architecture));
  }
  const Binding binding = Binding::make(checkpoint);
  NIBBLE_RETURN_IF_ERROR(binding.faults().refuse(checkpoint.path()));
  NIBBLE_RETURN_IF_ERROR(refuse_missing_layers(binding.faults(), checkpoint.path()));
  NIBBLE_ASSIGN_OR_RETURN(Qwen3MoeWeights weights, load_qwen3_moe(binding, options, pool));
  return std::unique_ptr<Model>(std::make_unique<Qwen3Moe>(std::move(weights)));
}

}  // namespace nibble::engine
