#include "tactics/tune/cpu_layer.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>

namespace nibble::tune {
namespace {

TuningShape shape_of(const CpuLayer& layer, const char* op, std::int64_t n, std::int64_t k) {
  return {.op = op,
          .experts = layer.experts,
          .top_k = layer.top_k,
          .n = n,
          .k = k,
          .format = layer.format,
          .activations = layer.activations == Format::kFp32 ? Format::kBf16 : layer.activations};
}

// A key that was asked for, and what the file has of it.
struct FoundKey {
  TuningShape shape;
  std::int64_t tokens = 0;
  Found found;
  std::vector<ThreadRange>* ranges = nullptr;
};

// The one instruction set of all choices; nullopt: there are none, or they differ.
std::optional<Isa> isa_of(const std::vector<FoundKey>& keys) {
  std::optional<Isa> isa;
  for (const FoundKey& key : keys) {
    if (!key.found.tactic) continue;
    const auto* cpu = std::get_if<CpuTactic>(&*key.found.tactic);
    if (cpu == nullptr || (isa && *isa != cpu->isa)) return std::nullopt;
    isa = cpu->isa;
  }
  return isa;
}

// Empty: it can be had.
std::string why_not(const AnyTactic& tactic, Isa isa, int threads) {
  const auto* cpu = std::get_if<CpuTactic>(&tactic);
  if (cpu == nullptr) {
    return fmt::format("the file's choice is {}, no tactic of a CPU", to_string(tactic));
  }
  if (cpu->isa != isa) {
    return fmt::format("the file's choice is {}, and the layer's weights are packed for {} alone",
                       to_string(tactic), to_string(isa));
  }
  if (cpu->threads > threads) {
    return fmt::format("the file's choice is {}, and there are {}", to_string(tactic), threads);
  }
  return "";
}

}  // namespace

TuningShape gate_up_shape(const CpuLayer& layer) {
  return shape_of(layer, "moe.gate_up", 2 * layer.intermediate, layer.hidden);
}

TuningShape down_shape(const CpuLayer& layer) {
  return shape_of(layer, "moe.down", layer.hidden, layer.intermediate);
}

CpuLayerChoices choose_cpu_layer(TuningTable& table, const CpuLayer& layer) {
  CpuLayerChoices choices{.isa = layer.isa.value_or(best_isa())};
  std::vector<FoundKey> keys;
  for (const std::int64_t tokens : layer.tokens) {
    for (const auto& [shape, ranges] : {std::pair(gate_up_shape(layer), &choices.threads.gate_up),
                                        std::pair(down_shape(layer), &choices.threads.down)}) {
      keys.push_back({shape, tokens, table.find(shape, tokens), ranges});
    }
  }
  if (const std::optional<Isa> isa = isa_of(keys); isa && !layer.isa && is_usable(*isa)) {
    choices.isa = *isa;
  }
  for (const FoundKey& key : keys) {
    if (!key.found.entry_tokens) continue;
    // The default of an entry without a choice that can be had stands in the way of wider ones,
    // too.
    ThreadRange range{key.found.entry_from, *key.found.entry_tokens, 0};
    if (key.found.tactic) {
      const std::string why = why_not(*key.found.tactic, choices.isa, layer.threads);
      if (why.empty()) {
        range.threads = std::get<CpuTactic>(*key.found.tactic).threads;
      } else {
        table.refuse(key.shape, key.tokens, why);
      }
    }
    const bool known =
        std::any_of(key.ranges->begin(), key.ranges->end(),
                    [&](const ThreadRange& other) { return other.tokens == range.tokens; });
    if (!known) key.ranges->push_back(range);
  }
  return choices;
}

std::vector<std::int64_t> tokens_up_to(const TuningTable& table, const CpuLayer& layer,
                                       std::int64_t most) {
  std::vector<std::int64_t> tokens = {most};
  for (std::int64_t count = 1; count < most; count *= 2) tokens.push_back(count);
  for (const TuningShape& shape : {gate_up_shape(layer), down_shape(layer)}) {
    for (const std::int64_t end : table.ends(shape)) {
      if (end < most) tokens.push_back(end);
    }
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace nibble::tune
