// The rig of whole mixture-of-experts layers: gate and up, activation, down, and the weighted sum.
// The experts of each token are given, as a router would choose them; the router itself is left
// out.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "bench/gemm_check.h"
#include "bench/memory_need.h"
#include "bench/rig.h"
#include "bench/routes.h"
#include "bench/weights.h"
#include "kernels/moe/moe.h"
#include "kernels/moe/reference.h"

namespace nibble {
namespace {

// The weighted sum. Quantizing, activation (which quantizes) and products are counted as such.
constexpr int kOtherSections = 1;

class MoeRig final : public Rig {
 public:
  MoeRig(BenchShape shape, const BenchSetup& setup)
      : shape_(std::move(shape)), setup_(setup), random_(setup.seed) {}

  Result<> pack_weights() {
    ring_ = plan_ring({.unit_bytes = expert_bytes(),
                       .least_units = shape_.experts,
                       .cache_bytes = setup_.cache_bytes,
                       .available_bytes = setup_.available_bytes,
                       .most_units = std::max(shape_.experts, kMostExperts),
                       .unit_memory_bytes = expert_memory_bytes(shape_)});
    if (!setup_.cold) {
      ring_ = {.units = shape_.experts,
               .bytes = expert_bytes() * static_cast<double>(shape_.experts)};
    }
    for (std::int64_t at = 0;
         at < std::min(static_cast<std::int64_t>(kDistinctMatrices), ring_.units); ++at) {
      gate_up_.push_back(random_matrix(shape_.format, 2 * shape_.n, shape_.k, random_.next()));
      down_.push_back(random_matrix(shape_.format, shape_.k, shape_.n, random_.next()));
    }
    for (std::int64_t unit = 0; unit < ring_.units; ++unit) {
      const auto at = static_cast<std::size_t>(unit) % gate_up_.size();
      gate_up_units_.push_back(gate_up_[at].view());
      down_units_.push_back(down_[at].view());
    }
    MoeConfig config{.hidden = shape_.k,
                     .intermediate = shape_.n,
                     .router = {.experts = ring_.units, .top_k = shape_.top_k},
                     .activations = shape_.activations,
                     .isa = setup_.isa,
                     .threads = setup_.threads};
    NIBBLE_ASSIGN_OR_RETURN(MoeLayer layer, MoeLayer::make(config, weights(), setup_.pool));
    layer_ = std::make_unique<MoeLayer>(std::move(layer));
    order_ = ColdOrder(ring_.units, random_.next());
    return {};
  }

  Result<> set_tokens(std::int64_t tokens) override {
    tokens_ = tokens;
    NIBBLE_ASSIGN_OR_RETURN(MoeWorkspace workspace, MoeWorkspace::make(*layer_, tokens));
    workspace_ = std::make_unique<MoeWorkspace>(std::move(workspace));
    x_ = gaussian(random_, tokens * shape_.k);
    y_.assign(x_.size(), 0);
    const auto choices = static_cast<std::size_t>(tokens * shape_.top_k);
    expert_weights_.assign(choices, 1 / static_cast<float>(shape_.top_k));
    draw();
    return {};
  }

  // Stage by stage, so that no stage's check depends on how the one before it was rounded.
  Result<> check() override {
    draw();
    run();
    const auto token = static_cast<std::size_t>(random_.below(static_cast<std::uint64_t>(tokens_)));
    const auto k = static_cast<std::size_t>(shape_.k);
    const auto top_k = static_cast<std::size_t>(shape_.top_k);
    const MoeWeights all = weights();
    const MoeReferenceParams one{
        .config = layer_->config(),
        .weights = all,
        .x = std::span(x_).subspan(token * k, k),
        .expert_ids = std::span(ids_).subspan(token * top_k, top_k),
        .expert_weights = std::span(expert_weights_).subspan(token * top_k, top_k)};
    const std::vector<float> gate_up = slots_of(token, workspace_->gate_up(), 2 * shape_.n);
    const std::vector<float> activated = slots_of(token, workspace_->activated(), shape_.n);
    const double of_gate_up = product_error_limit(shape_.format, shape_.activations, shape_.k);
    NIBBLE_RETURN_IF_ERROR(compare("gate and up", gate_up, reference_gate_up(one), of_gate_up));
    const std::vector<double> wide(gate_up.begin(), gate_up.end());
    // An exponential within 1.5 units in the last place, a quotient and two products.
    constexpr double kOfActivation = 0x1p-20;
    NIBBLE_RETURN_IF_ERROR(
        compare("activation", activated, reference_activated(one, wide), kOfActivation));
    // The weighted sum adds one rounding for each expert.
    const double of_down = product_error_limit(shape_.format, shape_.activations, shape_.n) +
                           static_cast<double>(shape_.top_k) * 0x1p-24;
    return compare("down and sum", std::span(y_).subspan(token * k, k),
                   reference_output(one, activated), of_down);
  }

  void draw() override {
    const RouteRequest request{shape_.experts, shape_.top_k, tokens_};
    routes_ = draw_routes(request, random_);
    std::vector<std::int64_t> places;
    if (setup_.cold) {
      places = order_.next(routes_.distinct());
    } else {
      places.assign(routes_.expert_of.begin(), routes_.expert_of.end());
    }
    ids_ = placed_ids(routes_, places, request);
  }

  void run() override {
    moe({.layer = *layer_,
         .workspace = *workspace_,
         .x = x_,
         .expert_ids = ids_,
         .expert_weights = expert_weights_,
         .y = y_},
        setup_.pool);
  }

  Work work() const override {
    const auto n = static_cast<double>(shape_.n);
    const auto k = static_cast<double>(shape_.k);
    const auto tokens = static_cast<double>(tokens_);
    const auto slots = static_cast<double>(routes_.slots());
    constexpr double kOutputBytes = 2;  // bf16, as the ledger counts
    Work work{.flop = 2 * slots * 3 * n * k,
              .distinct = static_cast<double>(routes_.distinct()),
              .quantized = {tokens * k, slots * n},
              .sections = kOtherSections};
    const PackedWeights& of_gate_up = layer_->gate_up();
    const PackedWeights& of_down = layer_->down();
    GemmCall gate_up{.list = ring_.units, .values = tokens * k};
    GemmCall down{.list = ring_.units, .values = slots * n};
    for (const std::vector<std::int32_t>& tokens_of : routes_.tokens_of) {
      const auto rows = static_cast<std::int64_t>(tokens_of.size());
      gate_up.products.push_back(
          {rows, 2 * shape_.n, shape_.k, static_cast<double>(of_gate_up.expert_bytes())});
      down.products.push_back(
          {rows, shape_.k, shape_.n, static_cast<double>(of_down.expert_bytes())});
    }
    work.calls = {std::move(gate_up), std::move(down)};
    work.weight_bytes = work.distinct * expert_bytes();
    // What lies between the products need not leave the caches.
    work.bytes = work.weight_bytes + storage_bytes(shape_.activations, tokens, k).total() +
                 tokens * k * kOutputBytes;
    return work;
  }

  MemoryParts cold_memory(double least_bytes) override {
    const auto wanted = static_cast<std::int64_t>(std::ceil(least_bytes / expert_bytes()));
    MemoryParts memory;
    for (const std::int64_t at : order_.next(std::clamp<std::int64_t>(wanted, 1, ring_.units))) {
      for (const PackedWeights* weights : {&layer_->gate_up(), &layer_->down()}) {
        const std::size_t begin = static_cast<std::size_t>(at) * weights->expert_bytes();
        memory.push_back(weights->bytes().subspan(begin, weights->expert_bytes()));
      }
    }
    return memory;
  }

  const Ring& ring() const override { return ring_; }
  std::string kernel() const override {
    MoeConfig config = layer_->config();
    config.router.experts = shape_.experts;  // not the copies of the ring
    return moe_name(config, shape_.format);
  }

 private:
  // What the last run wrote for each choice of one token: [top_k, columns].
  std::vector<float> slots_of(std::size_t token, std::span<const float> list,
                              std::int64_t columns) const {
    std::vector<float> values;
    const auto top_k = static_cast<std::size_t>(shape_.top_k);
    const auto width = static_cast<std::size_t>(columns);
    for (const std::int32_t slot : workspace_->slot_of().subspan(token * top_k, top_k)) {
      const auto row = list.subspan(static_cast<std::size_t>(slot) * width, width);
      values.insert(values.end(), row.begin(), row.end());
    }
    return values;
  }

  Result<> compare(std::string_view stage, std::span<const float> output,
                   std::span<const double> expected, double limit) const {
    const double error = moe_error(output, expected);
    if (error <= limit) return {};
    return run_error(
        "{}: {} differs from the double-precision reference by {:.2g} (at most {:.2g} is right), "
        "so it is not timed; please report it",
        kernel(), stage, error, limit);
  }

  double expert_bytes() const {
    const auto n = static_cast<double>(shape_.n);
    const auto k = static_cast<double>(shape_.k);
    return storage_bytes(shape_.format, 2 * n, k).total() +
           storage_bytes(shape_.format, k, n).total();
  }
  MoeWeights weights() const { return {.gate_up = gate_up_units_, .down = down_units_}; }

  BenchShape shape_;
  BenchSetup setup_;
  Random random_;
  Ring ring_;
  ColdOrder order_{1, 0};
  std::vector<QuantizedBytes> gate_up_, down_;
  std::vector<QuantizedMatrix> gate_up_units_, down_units_;
  std::unique_ptr<MoeLayer> layer_;
  std::unique_ptr<MoeWorkspace> workspace_;
  std::vector<float> x_, y_, expert_weights_;
  std::vector<std::int32_t> ids_;  // [tokens, top_k]
  std::int64_t tokens_ = 1;
  Routes routes_;
};

}  // namespace

Result<std::unique_ptr<Rig>> make_moe_rig(const BenchShape& shape, const BenchSetup& setup) {
  NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  auto rig = std::make_unique<MoeRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(rig->pack_weights());
  return std::unique_ptr<Rig>(std::move(rig));
}

}  // namespace nibble
