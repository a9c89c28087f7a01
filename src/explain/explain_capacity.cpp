// Point 8: what the KV cache holds, and whether the sequences that were asked for fit.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

void explain_fit(Scene& scene, const Capacity& capacity, std::string_view id, std::string_view what,
                 double tokens_each, const LevelAnalysis& level) {
  const double wanted = level.measured.concurrency;
  const double fit = capacity.sequences(tokens_each);
  scene.conclude(
      {.id = fmt::format("kv.fit.{}", id),
       .point = 8,
       .title = fmt::format("Sequences that fit at {}", what),
       .value = fit,
       .unit = "sequences",
       .verdict = fit >= wanted ? "fits" : "does not fit",
       .formula = "floor(cache tokens / tokens of a sequence)",
       .inputs = Inputs(scene)
                     .experts()
                     .expert_sizes()
                     .layers()
                     .layout()
                     .memory()
                     .lengths()
                     .concurrency(level.measured)
                     .add("utilization", scene.deployment().memory_utilization, "", "assumed")
                     .list(),
       .assumptions = {fmt::format("{} of memory for weights and cache; nothing else in it",
                                   percent_text(scene.deployment().memory_utilization))},
       .confidence = Confidence::kLikely,
       .sentence = fmt::format("At {} of {} tokens {} sequences fit into the cache; {} {}.", what,
                               format_number(tokens_each), format_count(fit), format_count(wanted),
                               fit >= wanted ? "fit" : "do not fit")});
}

// What the checkpoint declares, where the case does not say what the server does.
std::string format_text(const Scene& scene, Format used) {
  if (scene.found.kv_format) return fmt::format("{}", to_string(used));
  const std::optional<Format> declared = scene.model().quantization.kv_format();
  if (!declared || *declared == used) return fmt::format("{} (assumed)", to_string(used));
  return fmt::format("{} (assumed; the checkpoint declares {})", to_string(used),
                     to_string(*declared));
}

void explain_tokens(Scene& scene, const Capacity& capacity) {
  const Format format = scene.deployment().effective_kv_format();
  if (!scene.found.kv_format) {
    scene.lacks("server.kv_format: bytes per cached token, and how many sequences fit");
  }
  scene.conclude({.id = "kv.per_token",
                  .point = 8,
                  .title = "KV per token and GPU",
                  .value = capacity.kv_bytes_per_token,
                  .unit = "B",
                  .formula = "layers * (latent or heads + index) bytes",
                  .inputs = Inputs(scene).layers().layout().list(),
                  .assumptions = {fmt::format("cache in {}", format_text(scene, format))},
                  .confidence = scene.found.kv_format ? Confidence::kDerived : Confidence::kLikely,
                  .sentence = fmt::format("A token takes {} of cache on each GPU, in {}.",
                                          format_bytes(capacity.kv_bytes_per_token),
                                          format_text(scene, format))});
  scene.conclude(
      {.id = "kv.tokens",
       .point = 8,
       .title = "Tokens that fit",
       .value = capacity.tokens,
       .unit = "tokens",
       .formula = "(memory * utilization - weights) / KV per token",
       .inputs = Inputs(scene)
                     .experts()
                     .expert_sizes()
                     .layers()
                     .layout()
                     .memory()
                     .add("utilization", scene.deployment().memory_utilization, "", "assumed")
                     .list(),
       .assumptions = {"activations, graphs and fragmentation left out: an upper bound"},
       .confidence = Confidence::kLikely,
       .sentence = fmt::format("Weights take {} of {} per GPU; the cache holds {} tokens.",
                               format_bytes(capacity.weight_bytes_per_gpu),
                               format_bytes(scene.machine().memory_gb.value * kGiga),
                               format_count(std::floor(capacity.tokens)))});
}

}  // namespace

void explain_capacity(Scene& scene) {
  const Result<Capacity> capacity = kv_capacity(scene.deployment());
  if (!capacity) {
    scene.cannot_say("kv.fit", 8, "Sequences that fit", capacity.error().message);
    return;
  }
  explain_tokens(scene, *capacity);
  if (!capacity->limit.empty()) {
    scene.cannot_say("kv.fit", 8, "Sequences that fit", capacity->limit);
    return;
  }
  if (scene.analysis.levels.empty() || !mean_context(scene.found)) {
    scene.cannot_say("kv.fit", 8, "Sequences that fit",
                     scene.analysis.levels.empty() ? "the case has no load level"
                                                   : "input_len and output_len are not stated");
    return;
  }
  const LevelAnalysis most = scene.analysis.levels.back();
  explain_fit(scene, *capacity, "mean", "the mean length", *mean_context(scene.found), most);
  explain_fit(scene, *capacity, "full", "full length",
              *scene.found.input_len + *scene.found.output_len, most);
}

}  // namespace nibble
