// The rig of grouped products (and of ordinary ones, which have one expert).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/gemm_check.h"
#include "bench/memory_need.h"
#include "bench/rig.h"
#include "bench/routes.h"
#include "bench/weights.h"
#include "kernels/gemm/gemm.h"

namespace nibble {
namespace {

class GemmRig final : public Rig {
 public:
  GemmRig(BenchShape shape, const BenchSetup& setup)
      : shape_(std::move(shape)), setup_(setup), random_(setup.seed) {}

  Result<> pack_weights() {
    const double unit_bytes =
        storage_bytes(shape_.format, static_cast<double>(shape_.n), static_cast<double>(shape_.k))
            .total();
    ring_ = plan_ring({.unit_bytes = unit_bytes,
                       .least_units = shape_.experts,
                       .cache_bytes = setup_.cache_bytes,
                       .available_bytes = setup_.available_bytes,
                       .unit_memory_bytes = expert_memory_bytes(shape_)});
    if (!setup_.cold) {
      ring_ = {.units = shape_.experts, .bytes = unit_bytes * static_cast<double>(shape_.experts)};
    }
    for (std::int64_t at = 0;
         at < std::min(static_cast<std::int64_t>(kDistinctMatrices), ring_.units); ++at) {
      matrices_.push_back(random_matrix(shape_.format, shape_.n, shape_.k, random_.next()));
    }
    std::vector<QuantizedMatrix> units;
    for (std::int64_t unit = 0; unit < ring_.units; ++unit) units.push_back(matrix(unit));
    NIBBLE_ASSIGN_OR_RETURN(weights_, PackedWeights::pack(units, setup_.isa, setup_.pool));
    order_ = ColdOrder(ring_.units, random_.next());
    return {};
  }

  Result<> set_tokens(std::int64_t tokens) override {
    tokens_ = tokens;
    NIBBLE_ASSIGN_OR_RETURN(
        activations_,
        PackedActivations::make(tokens, shape_.k, shape_.activations, setup_.isa, shape_.format));
    x_ = gaussian(random_, tokens * shape_.k);
    const std::int64_t slots = tokens * shape_.top_k;
    NIBBLE_ASSIGN_OR_RETURN(
        output_, HugeBuffer::allocate(static_cast<std::size_t>(slots * shape_.n) * sizeof(float)));
    draw();
    return {};
  }

  Result<> check() override {
    draw();
    run();
    constexpr std::size_t kSlots = 4;
    const std::size_t slots = placed_.row_of.size();
    const std::span<const float> y = output();
    for (std::size_t sample = 0; sample < std::min(kSlots, slots); ++sample) {
      const std::size_t slot = slots < kSlots ? sample : random_.below(slots);
      const auto after = std::upper_bound(placed_.offsets.begin(), placed_.offsets.end(),
                                          static_cast<std::int32_t>(slot));
      const std::int64_t unit = after - placed_.offsets.begin() - 1;
      const auto token = static_cast<std::size_t>(placed_.row_of[slot]);
      const auto n = static_cast<std::size_t>(shape_.n);
      const auto k = static_cast<std::size_t>(shape_.k);
      constexpr std::int64_t kRows = 64;
      const std::int64_t last = std::max<std::int64_t>(0, shape_.n - kRows);
      const auto first =
          static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(last) + 1));
      const QuantizedMatrix of_unit = matrix(unit);
      NIBBLE_RETURN_IF_ERROR(check_product({.matrix = of_unit,
                                            .activations = shape_.activations,
                                            .x = std::span(x_).subspan(token * k, k),
                                            .y = y.subspan(slot * n, n),
                                            .rows = kRows,
                                            .first_row = first},
                                           kernel()));
    }
    return {};
  }

  void draw() override {
    routes_ = draw_routes({shape_.experts, shape_.top_k, tokens_}, random_);
    std::vector<std::int64_t> places;
    if (setup_.cold) {
      places = order_.next(routes_.distinct());
    } else {
      places.assign(routes_.expert_of.begin(), routes_.expert_of.end());
    }
    placed_ = place_routes(routes_, places, ring_.units);
    warm_activations();
  }

  void run() override {
    activations_.quantize(x_, setup_.pool);
    gemm({.weights = weights_,
          .activations = activations_,
          .offsets = placed_.offsets,
          .row_of = placed_.row_of,
          .output = output()},
         setup_.pool);
  }

  Work work() const override {
    const auto n = static_cast<double>(shape_.n);
    const auto k = static_cast<double>(shape_.k);
    const auto tokens = static_cast<double>(tokens_);
    const auto slots = static_cast<double>(routes_.slots());
    constexpr double kOutputBytes = 2;  // bf16, as the ledger counts
    Work work{.flop = 2 * slots * n * k,
              .distinct = static_cast<double>(routes_.distinct()),
              .quantized = {tokens * k}};
    GemmCall call{.list = ring_.units, .values = tokens * k};
    const auto read_bytes = static_cast<double>(weights_.expert_bytes());
    for (const std::vector<std::int32_t>& tokens_of : routes_.tokens_of) {
      const auto rows = static_cast<std::int64_t>(tokens_of.size());
      call.products.push_back({rows, shape_.n, shape_.k, read_bytes});
    }
    work.weight_bytes = work.distinct * storage_bytes(shape_.format, n, k).total();
    work.calls.push_back(std::move(call));
    work.bytes = work.weight_bytes + storage_bytes(shape_.activations, tokens, k).total() +
                 slots * n * kOutputBytes;
    return work;
  }

  MemoryParts cold_memory(double least_bytes) override {
    const double unit = ring_.bytes / static_cast<double>(ring_.units);
    const auto wanted = static_cast<std::int64_t>(std::ceil(least_bytes / unit));
    MemoryParts memory;
    for (const std::int64_t at : order_.next(std::clamp<std::int64_t>(wanted, 1, ring_.units))) {
      const std::size_t begin = static_cast<std::size_t>(at) * weights_.expert_bytes();
      memory.push_back(weights_.bytes().subspan(begin, weights_.expert_bytes()));
    }
    return memory;
  }

  const Ring& ring() const override { return ring_; }
  std::string kernel() const override {
    return gemm_name(shape_.format, shape_.activations, setup_.isa);
  }

 private:
  QuantizedMatrix matrix(std::int64_t unit) const {
    return matrices_[static_cast<std::size_t>(unit) % matrices_.size()].view();
  }
  // The layer before has just written the input, and buffers are used again in every step: they are
  // in the caches as far as they fit, whatever a roof has read since.
  void warm_activations() {
    activations_.quantize(x_, setup_.pool);
    std::fill(output().begin(), output().end(), 0.0F);
  }

  std::span<float> output() {
    return {reinterpret_cast<float*>(output_.data()), output_.size() / sizeof(float)};
  }

  BenchShape shape_;
  BenchSetup setup_;
  Random random_;
  Ring ring_;
  ColdOrder order_{1, 0};
  std::vector<QuantizedBytes> matrices_;
  PackedWeights weights_;  // [ring units, n, k]
  PackedActivations activations_;
  std::vector<float> x_;  // [tokens, k]
  HugeBuffer output_;     // [slots, n] fp32
  std::int64_t tokens_ = 1;
  Routes routes_;
  PlacedRoutes placed_;
};

}  // namespace

Result<std::unique_ptr<Rig>> make_gemm_rig(const BenchShape& shape, const BenchSetup& setup) {
  NIBBLE_RETURN_IF_ERROR(check_shape(shape));
  auto rig = std::make_unique<GemmRig>(shape, setup);
  NIBBLE_RETURN_IF_ERROR(rig->pack_weights());
  return std::unique_ptr<Rig>(std::move(rig));
}

}  // namespace nibble
