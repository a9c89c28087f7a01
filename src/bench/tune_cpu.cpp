#include "bench/tune_cpu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/units.h"
#include "bench/memory_need.h"
#include "bench/routes.h"
#include "bench/tune_cpu_check.h"
#include "bench/weights.h"
#include "kernels/gemm/gemm.h"
#include "machine/probe.h"
#include "measure/ring.h"
#include "tactics/tune/cpu_site.h"

namespace nibble {
namespace {

constexpr Isa kAllIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512};

// One shape with its weights, packed for each instruction set that was asked for.
class CpuTrials {
 public:
  CpuTrials(const tune::TuningShape& shape, const CpuTuneSetup& setup, double cache_bytes)
      : shape_(shape),
        setup_(setup),
        check_(shape, setup.routing, setup.seed),
        random_(setup.seed) {
    const BenchShape of_memory = bench_shape_of(shape);
    const double unit_bytes =
        storage_bytes(shape.format, static_cast<double>(shape.n), static_cast<double>(shape.k))
            .total();
    ring_ = plan_ring({.unit_bytes = unit_bytes,
                       .least_units = shape.experts,
                       .cache_bytes = setup.cold ? cache_bytes : 0,
                       .available_bytes = available_memory_bytes() / std::size(kAllIsas),
                       .unit_memory_bytes = expert_memory_bytes(of_memory)});
    if (!setup.cold) ring_.units = shape.experts;
    const auto distinct = std::min(static_cast<std::int64_t>(kDistinctMatrices), ring_.units);
    for (std::int64_t at = 0; at < distinct; ++at) {
      matrices_.push_back(random_matrix(shape.format, shape.n, shape.k, random_.next()));
    }
    order_ = ColdOrder(ring_.units, random_.next());
  }

  const tune::TuningShape& shape() const { return shape_; }

  Result<tune::CheckRun> check(const tune::CpuTactic& tactic, std::int64_t tokens, int repeats) {
    // Packed here, so that timing has its seconds for itself.
    NIBBLE_RETURN_IF_ERROR(prepare(tactic, tokens));
    return check_.run(tactic, tokens, repeats, *pool_);
  }

  Result<double> time_us(const tune::CpuTactic& tactic, std::int64_t tokens, std::size_t round) {
    NIBBLE_RETURN_IF_ERROR(prepare(tactic, tokens));
    place(round);
    // The layer before has just written the input, and buffers are used again in every step: they
    // are in the caches as far as they fit.
    multiply_warm();
    const Nanoseconds begin = monotonic_now();
    multiply(tactic);
    return static_cast<double>(monotonic_now() - begin) / 1e3;
  }

 private:
  static BenchShape bench_shape_of(const tune::TuningShape& shape) {
    return {.format = shape.format,
            .activations = shape.activations,
            .experts = shape.experts,
            .top_k = shape.top_k,
            .n = shape.n,
            .k = shape.k};
  }

  QuantizedMatrix matrix(std::int64_t unit) const {
    return matrices_[static_cast<std::size_t>(unit) % matrices_.size()].view();
  }

  std::span<float> output() {
    return {reinterpret_cast<float*>(output_.data()), output_.size() / sizeof(float)};
  }

  Result<> prepare(const tune::CpuTactic& tactic, std::int64_t tokens) {
    if (!is_usable(tactic.isa)) {
      return run_error("this processor has not {}", to_string(tactic.isa));
    }
    // Two pools would bind their threads to the same processors.
    if (!pool_ || pool_->threads() != tactic.threads) {
      pool_.reset();
      pool_.emplace(tactic.threads);
    }
    if (!weights_.contains(tactic.isa)) {
      std::vector<QuantizedMatrix> units;
      for (std::int64_t unit = 0; unit < ring_.units; ++unit) units.push_back(matrix(unit));
      NIBBLE_ASSIGN_OR_RETURN(PackedWeights packed, PackedWeights::pack(units, tactic.isa, *pool_));
      weights_.emplace(tactic.isa, std::move(packed));
    }
    if (tokens != tokens_) {
      activations_.clear();
      tokens_ = tokens;
      Random of_tokens(setup_.seed + static_cast<std::uint64_t>(tokens));
      x_ = gaussian(of_tokens, tokens * shape_.k);
      const std::int64_t values = tokens * shape_.top_k * shape_.n;
      NIBBLE_ASSIGN_OR_RETURN(
          output_, HugeBuffer::allocate(static_cast<std::size_t>(values) * sizeof(float)));
    }
    if (!activations_.contains(tactic.isa)) {
      NIBBLE_ASSIGN_OR_RETURN(
          PackedActivations rows,
          PackedActivations::make(tokens, shape_.k, shape_.activations, tactic.isa, shape_.format));
      activations_.emplace(tactic.isa, std::move(rows));
    }
    current_ = tactic.isa;
    return {};
  }

  // The routing of a round is the same for every tactic; its place in memory is not.
  void place(std::size_t round) {
    Random of_round(setup_.seed * 7919 + round);
    const RouteRequest request{shape_.experts, shape_.top_k, tokens_};
    const Routes routes = routes_of_ids(draw_ids(request, setup_.routing, of_round), shape_.top_k);
    std::vector<std::int64_t> places(routes.expert_of.begin(), routes.expert_of.end());
    if (setup_.cold) places = order_.next(routes.distinct());
    placed_ = place_routes(routes, places, ring_.units);
  }

  void multiply_warm() {
    activations_.at(current_).quantize(x_, *pool_);
    std::fill(output().begin(), output().end(), 0.0F);
  }

  void multiply(const tune::CpuTactic& tactic) {
    PackedActivations& rows = activations_.at(tactic.isa);
    rows.quantize(x_, *pool_);
    gemm({.weights = weights_.at(tactic.isa),
          .activations = rows,
          .offsets = placed_.offsets,
          .row_of = placed_.row_of,
          .output = output()},
         *pool_);
  }

  tune::TuningShape shape_;
  CpuTuneSetup setup_;
  CpuCheck check_;
  Random random_;
  Ring ring_;
  ColdOrder order_{1, 0};
  std::vector<QuantizedBytes> matrices_;
  std::map<Isa, PackedWeights> weights_;          // [ring units, n, k]
  std::map<Isa, PackedActivations> activations_;  // [tokens, k]
  std::vector<float> x_;
  HugeBuffer output_;  // [slots, n] fp32
  std::int64_t tokens_ = 0;
  PlacedRoutes placed_;
  Isa current_ = Isa::kPortable;
  std::optional<ThreadPool> pool_;
};

class CpuTuner final : public tune::TuneBackend {
 public:
  explicit CpuTuner(const CpuTuneSetup& setup)
      : setup_(setup),
        site_(tune::cpu_tuning_site()),
        cache_bytes_(probe_cpu().last_level_cache_mb.value_or(0) * kMega),
        processors_(static_cast<int>(usable_processors().size())),
        fallback_(default_cpu_tactic()) {}

  Result<tune::BackendIdentity> identity() override {
    return tune::BackendIdentity{.site = site_, .compiler = "none"};
  }

  Result<tune::Candidates> candidates(const tune::TuningKey& key) override {
    NIBBLE_RETURN_IF_ERROR(check_shape(BenchShape{.op = BenchOp::kGemm,
                                                  .name = key.shape.op,
                                                  .format = key.shape.format,
                                                  .activations = key.shape.activations,
                                                  .experts = key.shape.experts,
                                                  .top_k = key.shape.top_k,
                                                  .n = key.shape.n,
                                                  .k = key.shape.k,
                                                  .tokens = {key.tokens}}));
    tune::Candidates found{.fallback = fallback_};
    for (const tune::CpuTactic& tactic : cpu_tactics(processors_)) {
      if (is_usable(tactic.isa)) {
        found.feasible.emplace_back(tactic);
      } else {
        found.infeasible.push_back(
            {tactic, fmt::format("this processor has not {}", to_string(tactic.isa))});
      }
    }
    return found;
  }

  Result<tune::CheckRun> check(const tune::TuningKey& key, const tune::AnyTactic& tactic,
                               std::int64_t tokens, int repeats) override {
    NIBBLE_ASSIGN_OR_RETURN(const tune::CpuTactic cpu, cpu_tactic(tactic));
    return trials(key.shape).check(cpu, tokens, repeats);
  }

  Result<double> time_us(const tune::TuningKey& key, const tune::AnyTactic& tactic,
                         std::size_t round) override {
    NIBBLE_ASSIGN_OR_RETURN(const tune::CpuTactic cpu, cpu_tactic(tactic));
    return trials(key.shape).time_us(cpu, key.tokens, round);
  }

 private:
  static Result<tune::CpuTactic> cpu_tactic(const tune::AnyTactic& tactic) {
    const auto* cpu = std::get_if<tune::CpuTactic>(&tactic);
    if (cpu == nullptr) return run_error("{} is no tactic of a CPU", tune::to_string(tactic));
    return *cpu;
  }

  // One shape at a time: two rings of cold weights might not fit.
  CpuTrials& trials(const tune::TuningShape& shape) {
    if (!trials_ || !(trials_->shape() == shape)) {
      trials_.reset();
      trials_ = std::make_unique<CpuTrials>(shape, setup_, cache_bytes_);
    }
    return *trials_;
  }

  CpuTuneSetup setup_;
  tune::TuningSite site_;
  double cache_bytes_;
  int processors_;
  tune::CpuTactic fallback_;
  std::unique_ptr<CpuTrials> trials_;
};

}  // namespace

tune::CpuTactic default_cpu_tactic() {
  return {.isa = best_isa(), .threads = static_cast<int>(usable_processors().size())};
}

// Portable code on all processors alone: it is there to be the last resort, and checking it takes
// longer than all others together.
std::vector<tune::CpuTactic> cpu_tactics(int processors) {
  std::vector<tune::CpuTactic> tactics = {{.isa = Isa::kPortable, .threads = processors}};
  for (const Isa isa : kAllIsas) {
    if (isa == Isa::kPortable) continue;
    for (int threads = 1; threads < processors; threads *= 2) {
      tactics.push_back({.isa = isa, .threads = threads});
    }
    tactics.push_back({.isa = isa, .threads = processors});
  }
  return tactics;
}

std::unique_ptr<tune::TuneBackend> make_cpu_tuner(const CpuTuneSetup& setup) {
  return std::make_unique<CpuTuner>(setup);
}

}  // namespace nibble
