#include "checkpoint/expected.h"

#include <algorithm>
#include <fmt/core.h>

namespace nibble {
namespace {

// "a.b.gate_proj" -> "a.b.".
std::string parent(const std::string& module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string::npos ? "" : module.substr(0, dot + 1);
}

class Expectation {
 public:
  Expectation(const ModelSpec& model, const std::function<bool(const std::string&)>& is_stacked)
      : model_(model), is_stacked_(is_stacked) {}

  void add(const std::vector<Weight>& weights, bool mtp);
  ExpectedTensors take() { return std::move(out_); }

 private:
  void add_matrix(const Weight& weight, std::string name, std::int64_t copies, std::int64_t rows);
  void add_gate_up(const Weight& weight, const std::string& below, const std::string& gate,
                   const std::string& up);
  void add_experts(const Weight& weight);
  void add_small(const Weight& weight);
  void add_vector(std::vector<std::string> names, std::int64_t elements) {
    out_.vectors.push_back({std::move(names), elements, mtp_});
  }

  const ModelSpec& model_;
  const std::function<bool(const std::string&)>& is_stacked_;
  ExpectedTensors out_;
  bool mtp_ = false;
  bool expert_bias_ = false;
};

void Expectation::add_matrix(const Weight& weight, std::string name, std::int64_t copies,
                             std::int64_t rows) {
  const bool expert = weight.part == Part::kExpertGateUp || weight.part == Part::kExpertDown;
  out_.matrices.push_back({.name = std::move(name),
                           .copies = copies,
                           .rows = rows,
                           .columns = weight.columns,
                           .bias = expert && expert_bias_,
                           .mtp = mtp_});
}

// The ledger counts gate and up as one matrix; checkpoints hold two.
void Expectation::add_gate_up(const Weight& weight, const std::string& below,
                              const std::string& gate, const std::string& up) {
  add_matrix(weight, below + gate, 0, weight.rows / 2);
  add_matrix(weight, below + up, 0, weight.rows / 2);
}

void Expectation::add_experts(const Weight& weight) {
  const ModuleNames& names = model_.names;
  const bool gate_up = weight.part == Part::kExpertGateUp;
  const std::size_t at = weight.module.rfind(".experts");
  const std::string experts = weight.module.substr(0, at) + ".experts";
  if (is_stacked_(experts)) {
    add_matrix(weight, experts + (gate_up ? ".gate_up_proj" : ".down_proj"), weight.copies,
               weight.rows);
    return;
  }
  for (std::int64_t expert = 0; expert < weight.copies; ++expert) {
    const std::string below = fmt::format("{}.{}.", experts, expert);
    if (gate_up) {
      add_gate_up(weight, below, names.gate, up_name(names));
    } else {
      add_matrix(weight, below + names.down, 0, weight.rows);
    }
  }
}

void Expectation::add_small(const Weight& weight) {
  const std::string& module = weight.module;
  const auto ends = [&](std::string_view end) { return module.ends_with(end); };
  if (ends(".experts.bias")) return;  // stands with the matrices: ExpectedMatrix::bias
  if (ends(".e_score_correction_bias")) {
    // MiniMax-M2 keeps it beside the router, DeepSeek inside.
    const std::string router = parent(module);
    const std::string above = parent(router.substr(0, router.size() - 1));
    add_vector({module, above + "e_score_correction_bias"}, weight.rows);
  } else if (ends(".bias") || ends(".sinks")) {
    add_vector({module}, weight.rows);
  } else if (ends(".indexer.k_norm")) {
    add_vector({module + ".weight"}, weight.rows / 2);
    add_vector({module + ".bias"}, weight.rows / 2);
  } else {
    add_vector({module + ".weight"}, weight.rows);
  }
}

void Expectation::add(const std::vector<Weight>& weights, bool mtp) {
  mtp_ = mtp;
  expert_bias_ = model_.moe && model_.moe->expert_bias;
  for (const Weight& weight : weights) {
    switch (weight.part) {
      case Part::kSmall:
        add_small(weight);
        break;
      case Part::kExpertGateUp:
      case Part::kExpertDown:
        add_experts(weight);
        break;
      case Part::kDenseGateUp:
      case Part::kSharedGateUp:
        add_gate_up(weight, parent(weight.module), "gate_proj", "up_proj");
        break;
      case Part::kLmHead:
        if (!model_.tied_embeddings) add_matrix(weight, weight.module, 0, weight.rows);
        break;
      default:
        add_matrix(weight, weight.module, 0, weight.rows);
    }
  }
}

}  // namespace

std::string up_name(const ModuleNames& names) {
  return names.gate == "w1" ? "w3" : "up_proj";
}

std::string block_prefix(const ModelSpec& model, std::size_t layer) {
  return fmt::format("{}layers.{}.{}.", model.names.prefix, layer, model.names.block);
}

ExpectedTensors expect_tensors(const ModelSpec& model,
                               const std::function<bool(const std::string&)>& is_stacked) {
  Expectation expectation(model, is_stacked);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    expectation.add(layer_weights(model, layer), false);
  }
  expectation.add(outer_weights(model), false);
  // MTP layers with a prefix of their own have names that differ from family to family.
  if (model.names.mtp_prefix.empty()) expectation.add(mtp_weights(model), true);
  return expectation.take();
}

}  // namespace nibble
