#include "kernels/moe/moe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "formats/quantize.h"
#include "kernels/gemm/gemm.h"
#include "kernels/moe/combine.h"
#include "kernels/moe/dispatch.h"
#include "kernels/moe/layer_checks.h"

namespace nibble {
namespace {

// Far above every model, and low enough that no product of sizes below overflows 64 bits.
constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;
constexpr std::int64_t kMostSlots = std::int64_t{1} << 24;

Result<> check_shapes(const MoeConfig& config, std::span<const QuantizedMatrix> experts,
                      std::string_view name, std::int64_t rows, std::int64_t columns) {
  NIBBLE_RETURN_IF_ERROR(check_expert_sizes(experts, name, config.router.experts, rows, columns));
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    if (experts[expert].format == Format::kBf16 && config.activations != Format::kBf16 &&
        config.activations != Format::kFp32) {
      return input_error("{} of expert {} is bf16, which takes fp32 or bf16 activations, not {}",
                         name, expert, to_string(config.activations));
    }
  }
  return {};
}

Result<> check_config(const MoeConfig& config) {
  if (config.hidden < 1 || config.hidden > kMostColumns || config.intermediate < 1 ||
      config.intermediate > kMostColumns / 2) {
    return input_error("the layer has {} hidden and {} intermediate columns; give 1 to {} and {}",
                       config.hidden, config.intermediate, kMostColumns, kMostColumns / 2);
  }
  if (!is_usable(config.isa)) {
    return input_error("this processor has no {} instructions", to_string(config.isa));
  }
  const Format activations = config.activations;
  if (activations != Format::kFp32 && activations != Format::kBf16 &&
      activations != Format::kInt8 && activations != Format::kNvfp4) {
    return input_error("the layer cannot take {} activations; choose fp32, bf16, int8 or nvfp4",
                       to_string(activations));
  }
  if (config.static_input_scales && config.activations != Format::kNvfp4) {
    return input_error("static input scales belong to nvfp4 activations; these are {}",
                       to_string(config.activations));
  }
  return check_activation(config.activation);
}

Result<> check_weights(const MoeConfig& config, const MoeWeights& weights) {
  const std::int64_t experts = config.router.experts;
  const std::int64_t hidden = config.hidden;
  const std::int64_t both = 2 * config.intermediate;
  NIBBLE_RETURN_IF_ERROR(check_shapes(config, weights.gate_up, "gate_up", both, hidden));
  NIBBLE_RETURN_IF_ERROR(check_shapes(config, weights.down, "down", hidden, config.intermediate));
  NIBBLE_RETURN_IF_ERROR(check_bias(weights.gate_up_bias, "gate_up's bias", experts * both));
  NIBBLE_RETURN_IF_ERROR(check_bias(weights.down_bias, "down's bias", experts * hidden));
  NIBBLE_RETURN_IF_ERROR(check_bias(weights.router_bias, "the router's bias", experts));
  if (!weights.router) {
    if (weights.router_bias.empty()) return {};
    return input_error("the router has a bias but no weights");
  }
  const QuantizedMatrix& router = *weights.router;
  if (router.format != Format::kBf16 || router.rows != experts || router.columns != hidden) {
    return input_error("the router's weights are {} {} x {}; the layer's sizes want bf16 {} x {}",
                       to_string(router.format), router.rows, router.columns, experts, hidden);
  }
  return {};
}

}  // namespace

// What moe() may see of a layer and of its workspace.
struct MoeAccess {
  static Result<MoeLayer> make_layer(MoeConfig config, const MoeWeights& weights,
                                     ThreadPool& pool) {
    NIBBLE_ASSIGN_OR_RETURN(Router router, Router::make(config.router));
    NIBBLE_RETURN_IF_ERROR(check_config(config));
    NIBBLE_RETURN_IF_ERROR(check_weights(config, weights));
    MoeLayer layer(config, std::move(router));
    if (config.static_input_scales) {
      NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_input_scale_,
                              largest_input_scale(weights.gate_up, "gate_up"));
      NIBBLE_ASSIGN_OR_RETURN(layer.down_input_scale_, largest_input_scale(weights.down, "down"));
    }
    NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_, pack(weights.gate_up, "gate_up", config.isa, pool));
    NIBBLE_ASSIGN_OR_RETURN(layer.down_, pack(weights.down, "down", config.isa, pool));
    if (weights.router) {
      NIBBLE_ASSIGN_OR_RETURN(layer.router_weights_,
                              pack({&*weights.router, 1}, "router", config.isa, pool));
    }
    layer.router_bias_.assign(weights.router_bias.begin(), weights.router_bias.end());
    layer.gate_up_bias_.assign(weights.gate_up_bias.begin(), weights.gate_up_bias.end());
    layer.down_bias_.assign(weights.down_bias.begin(), weights.down_bias.end());
    return layer;
  }

  static Result<PackedWeights> pack(std::span<const QuantizedMatrix> matrices,
                                    std::string_view name, Isa isa, ThreadPool& pool) {
    Result<PackedWeights> packed = PackedWeights::pack(matrices, isa, pool);
    if (!packed.ok()) return packed.error().within(name);
    return packed;
  }

  static Result<MoeWorkspace> make_workspace(const MoeLayer& layer, std::int64_t most_tokens) {
    const MoeConfig& config = layer.config_;
    const std::int64_t top_k = config.router.top_k;
    if (most_tokens < 0 || most_tokens > kMostSlots / top_k) {
      return input_error("a workspace for {} tokens of top-{} is out of range; give 0 to {} tokens",
                         most_tokens, top_k, kMostSlots / top_k);
    }
    MoeWorkspace workspace;
    workspace.most_tokens_ = most_tokens;
    workspace.experts_ = config.router.experts;
    workspace.top_k_ = top_k;
    workspace.hidden_ = config.hidden;
    workspace.intermediate_ = config.intermediate;
    const std::int64_t slots = most_tokens * top_k;
    const auto make = [&](std::int64_t rows, std::int64_t columns, const PackedWeights& weights) {
      return PackedActivations::make(rows, columns, config.activations, config.isa,
                                     weights.format());
    };
    NIBBLE_ASSIGN_OR_RETURN(workspace.gate_up_input_,
                            make(most_tokens, config.hidden, layer.gate_up_));
    NIBBLE_ASSIGN_OR_RETURN(workspace.down_input_, make(slots, config.intermediate, layer.down_));
    if (layer.router_weights_) {
      NIBBLE_ASSIGN_OR_RETURN(
          workspace.router_input_,
          PackedActivations::make(
              most_tokens, config.hidden,
              config.activations == Format::kFp32 ? Format::kFp32 : Format::kBf16, config.isa,
              Format::kBf16));
    }
    NIBBLE_RETURN_IF_ERROR(allocate(workspace));
    return workspace;
  }

  static Result<> allocate(MoeWorkspace& workspace) {
    const std::int64_t tokens = workspace.most_tokens_;
    const std::int64_t slots = tokens * workspace.top_k_;
    const std::array sizes = {tokens * workspace.experts_, slots,
                              slots * 2 * workspace.intermediate_, slots * workspace.intermediate_,
                              slots * workspace.hidden_};
    const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    NIBBLE_ASSIGN_OR_RETURN(workspace.memory_,
                            HugeBuffer::allocate(static_cast<std::size_t>(total) * sizeof(float)));
    auto* next = reinterpret_cast<float*>(workspace.memory_.data());
    const std::array spans = {&workspace.logits_, &workspace.weights_, &workspace.gate_up_,
                              &workspace.activated_, &workspace.down_};
    for (std::size_t index = 0; index < sizes.size(); ++index) {
      *spans[index] = {next, static_cast<std::size_t>(sizes[index])};
      next += sizes[index];
    }
    workspace.offsets_.assign(static_cast<std::size_t>(workspace.experts_) + 1, 0);
    for (std::vector<std::int32_t>* list :
         {&workspace.ids_, &workspace.row_of_, &workspace.expert_of_, &workspace.slot_of_,
          &workspace.every_row_}) {
      list->assign(static_cast<std::size_t>(slots), 0);
    }
    std::iota(workspace.every_row_.begin(), workspace.every_row_.end(), 0);
    return {};
  }

  // The step's tokens, when everything fits.
  static std::int64_t begin(const MoeParams& params) {
    const MoeConfig& config = params.layer.config_;
    MoeWorkspace& workspace = params.workspace;
    NIBBLE_CHECK(workspace.experts_ == config.router.experts);
    NIBBLE_CHECK(workspace.top_k_ == config.router.top_k);
    NIBBLE_CHECK(workspace.hidden_ == config.hidden);
    NIBBLE_CHECK(workspace.intermediate_ == config.intermediate);
    const std::int64_t tokens = static_cast<std::int64_t>(params.x.size()) / config.hidden;
    NIBBLE_CHECK(static_cast<std::int64_t>(params.x.size()) == tokens * config.hidden);
    NIBBLE_CHECK(tokens <= workspace.most_tokens_);
    workspace.tokens_ = tokens;
    return tokens;
  }

  static void route(const MoeParams& params, ThreadPool& pool) {
    const MoeLayer& layer = params.layer;
    MoeWorkspace& workspace = params.workspace;
    NIBBLE_CHECK(layer.router_weights_ && workspace.router_input_);
    const std::int64_t tokens = begin(params);
    const std::int64_t choices = tokens * workspace.top_k_;
    const auto logits =
        workspace.logits_.first(static_cast<std::size_t>(tokens * workspace.experts_));
    const std::array<std::int32_t, 2> offsets = {0, static_cast<std::int32_t>(tokens)};
    workspace.router_input_->quantize(params.x, pool);
    gemm({.weights = *layer.router_weights_,
          .activations = *workspace.router_input_,
          .offsets = offsets,
          .row_of = std::span(workspace.every_row_).first(static_cast<std::size_t>(tokens)),
          .output = logits},
         pool);
    layer.router_.route({.logits = logits,
                         .linear_bias = layer.router_bias_,
                         .ids = std::span(workspace.ids_).first(static_cast<std::size_t>(choices)),
                         .weights = workspace.weights_.first(static_cast<std::size_t>(choices))},
                        layer.config_.isa, pool);
    ended(params, "moe.router");
  }

  static void ended(const MoeParams& params, std::string_view part) {
    if (params.ended != nullptr) (*params.ended)(part);
  }

  static void take_given(const MoeParams& params) {
    MoeWorkspace& workspace = params.workspace;
    const std::int64_t choices = begin(params) * workspace.top_k_;
    NIBBLE_CHECK(static_cast<std::int64_t>(params.expert_ids.size()) == choices);
    NIBBLE_CHECK(params.expert_weights.size() == params.expert_ids.size());
    std::copy(params.expert_ids.begin(), params.expert_ids.end(), workspace.ids_.begin());
    std::copy(params.expert_weights.begin(), params.expert_weights.end(),
              workspace.weights_.begin());
  }

  // Both products of all experts, from the workspace's ids to its `down`.
  static void run_experts(const MoeParams& params, ThreadPool& pool) {
    const MoeLayer& layer = params.layer;
    MoeWorkspace& workspace = params.workspace;
    const auto slots = static_cast<std::size_t>(workspace.tokens_ * workspace.top_k_);
    const auto row_of = std::span(workspace.row_of_).first(slots);
    const Result<> dispatched = dispatch({.ids = std::span(workspace.ids_).first(slots),
                                          .top_k = workspace.top_k_,
                                          .experts = workspace.experts_,
                                          .offsets = workspace.offsets_,
                                          .row_of = row_of,
                                          .expert_of = expert_of(workspace, slots),
                                          .slot_of = std::span(workspace.slot_of_).first(slots)});
    NIBBLE_CHECK(dispatched.ok());
    const auto intermediate = static_cast<std::size_t>(workspace.intermediate_);
    const auto gate_up = workspace.gate_up_.first(slots * 2 * intermediate);
    const auto activated = workspace.activated_.first(slots * intermediate);
    workspace.gate_up_input_.quantize(params.x, pool, layer.gate_up_input_scale_);
    gemm({.weights = layer.gate_up_,
          .activations = workspace.gate_up_input_,
          .offsets = workspace.offsets_,
          .row_of = row_of,
          .output = gate_up,
          .most_threads = threads_for(layer.config_.threads.gate_up, workspace.tokens_)},
         pool);
    activate({.gate_up = gate_up,
              .expert_of = expert_of(workspace, slots),
              .bias = layer.gate_up_bias_,
              .intermediate = workspace.intermediate_,
              .activation = layer.config_.activation,
              .output = activated,
              .packed = &workspace.down_input_,
              .input_scale = layer.down_input_scale_},
             layer.config_.isa, pool);
    ended(params, "moe.gate_up");
    gemm({.weights = layer.down_,
          .activations = workspace.down_input_,
          .offsets = workspace.offsets_,
          .row_of = std::span(workspace.every_row_).first(slots),
          .output = workspace.down_.first(slots * static_cast<std::size_t>(workspace.hidden_)),
          .most_threads = threads_for(layer.config_.threads.down, workspace.tokens_)},
         pool);
    ended(params, "moe.down");
  }

  static void add_up(const MoeParams& params, ThreadPool& pool) {
    MoeWorkspace& workspace = params.workspace;
    const auto slots = static_cast<std::size_t>(workspace.tokens_ * workspace.top_k_);
    combine({.down = workspace.down_.first(slots * static_cast<std::size_t>(workspace.hidden_)),
             .slot_of = std::span(workspace.slot_of_).first(slots),
             .expert_of = expert_of(workspace, slots),
             .weights = workspace.weights_.first(slots),
             .bias = params.layer.down_bias_,
             .shared = params.shared,
             .top_k = workspace.top_k_,
             .hidden = workspace.hidden_,
             .output = params.y},
            params.layer.config_.isa, pool);
    ended(params, "moe.combine");
  }

  static std::span<std::int32_t> expert_of(MoeWorkspace& workspace, std::size_t slots) {
    return std::span(workspace.expert_of_).first(slots);
  }
};

int threads_for(std::span<const ThreadRange> ranges, std::int64_t tokens) {
  const ThreadRange* best = nullptr;
  for (const ThreadRange& range : ranges) {
    if (tokens < range.from_tokens || tokens > range.tokens) continue;
    if (best == nullptr || range.tokens < best->tokens) best = &range;
  }
  return best == nullptr ? 0 : best->threads;
}

Result<MoeLayer> MoeLayer::make(MoeConfig config, const MoeWeights& weights, ThreadPool& pool) {
  return MoeAccess::make_layer(std::move(config), weights, pool);
}

Result<MoeWorkspace> MoeWorkspace::make(const MoeLayer& layer, std::int64_t most_tokens) {
  return MoeAccess::make_workspace(layer, most_tokens);
}

void moe_route(const MoeParams& params, ThreadPool& pool) {
  MoeAccess::route(params, pool);
}

void moe(const MoeParams& params, ThreadPool& pool) {
  NIBBLE_CHECK(params.y.size() == params.x.size());
  NIBBLE_CHECK(params.shared.empty() || params.shared.size() == params.y.size());
  if (params.expert_ids.empty() && params.expert_weights.empty() && !params.x.empty()) {
    MoeAccess::route(params, pool);
  } else {
    MoeAccess::take_given(params);
  }
  MoeAccess::run_experts(params, pool);
  MoeAccess::add_up(params, pool);
}

std::string moe_name(const MoeConfig& config, Format weights) {
  return fmt::format("moe {} x {} {} {} experts top-{} {} -> 2 x {} {}", to_string(weights),
                     to_string(config.activations), to_string(config.isa), config.router.experts,
                     config.router.top_k, config.hidden, config.intermediate,
                     to_string(config.activation.kind));
}

}  // namespace nibble
