#include "bench/tune_cuda.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "bench/cuda_bench.h"
#include "bench/cuda_layer_parts.h"
#include "bench/cuda_timer.h"
#include "bench/cuda_w4a16_rig.h"
#include "bench/tune_shapes.h"
#include "cuda/compile.h"
#include "cuda/driver.h"
#include "cuda/sha256.h"
#include "kernels/device/device_sources.h"
#include "kernels/gemm/device/w4a4.h"

namespace nibble {
namespace {

bool is_gate_up(const tune::TuningKey& key) {
  return key.shape.op == "moe.gate_up";
}

Result<> check_key(const tune::TuningKey& key, const cuda::DeviceInfo& info) {
  if (!is_gate_up(key) && key.shape.op != "moe.down") {
    return input_error("{} is not tuned on a GPU; moe.gate_up and moe.down are", key.shape.op);
  }
  const Format activations = key.shape.activations;
  if (activations == Format::kNvfp4 || activations == Format::kMxfp4) {
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch arch, cuda::arch_to_run(info, ""));
    if (!has_fp4_mma(arch)) {
      return run_error(
          "{} has no FP4 instruction, and a timing of its software body would say nothing of a "
          "chip that has it; give --activations bf16",
          info.name);
    }
    return run_error("4-bit activations are not tuned yet; give --activations bf16");
  }
  return check_cuda_shape(bench_shape(key.shape, {key.tokens}));
}

// The products of one layer on one GPU.
class CudaTuner final : public tune::TuneBackend {
 public:
  static Result<std::unique_ptr<CudaTuner>> make(const CudaTuneSetup& setup) {
    auto tuner = std::unique_ptr<CudaTuner>(new CudaTuner(setup));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Device gpu, cuda::Device::open(setup.ordinal));
    tuner->gpu_.emplace(std::move(gpu));
    NIBBLE_ASSIGN_OR_RETURN(tuner->compiler_, cuda::compiler());
    NIBBLE_ASSIGN_OR_RETURN(CudaProbes probes, CudaProbes::load(*tuner->gpu_));
    tuner->probes_.emplace(std::move(probes));
    NIBBLE_ASSIGN_OR_RETURN(CudaTimer timer, CudaTimer::make(*tuner->probes_));
    tuner->timer_.emplace(std::move(timer));
    return tuner;
  }

  bool lost() const { return !gpu_->synchronize().ok(); }

  Result<tune::BackendIdentity> identity() override {
    NIBBLE_ASSIGN_OR_RETURN(tune::TuningSite site, cuda_tuning_site(setup_.ordinal));
    return tune::BackendIdentity{.site = std::move(site), .compiler = compiler_};
  }

  Result<tune::Candidates> candidates(const tune::TuningKey& key) override {
    NIBBLE_RETURN_IF_ERROR(open(key, key.tokens));
    const W4A16Problem& problem = problem_of(key);
    const W4A16Tactic fallback = tactic_of(key, defaults_);
    const BlockLimits limits = limits_of(gpu_->info());
    tune::Candidates found{.fallback = fallback};
    std::vector<W4A16Tactic> all = w4a16_tactics(problem, limits);
    // First, so that the others can be compared with it.
    std::erase(all, fallback);
    all.insert(all.begin(), fallback);
    const std::int64_t choices = key.tokens * key.shape.top_k;
    for (const W4A16Tactic& tactic : all) {
      Result<> runs = check_tactic(problem, tactic, limits);
      if (runs.ok()) runs = check_choices(problem, tactic, choices);
      if (runs.ok()) {
        found.feasible.emplace_back(tactic);
      } else {
        found.infeasible.push_back({tactic, runs.error().message});
      }
    }
    return found;
  }

  // The whole layer as a graph, as it is served: routing, both products, the sum. One routing for
  // all replays.
  Result<tune::CheckRun> check(const tune::TuningKey& key, const tune::AnyTactic& tactic,
                               std::int64_t tokens, int repeats) override {
    NIBBLE_RETURN_IF_ERROR(use(key, tactic, tokens));
    cuda::Stream& stream = timer_->stream();
    NIBBLE_ASSIGN_OR_RETURN(const LayerError error, trials_->measure_error(stream));
    tune::CheckRun run{.error = error.relative, .limit = kLayerErrorLimit, .where = error.where};
    NIBBLE_RETURN_IF_ERROR(trials_->draw_turn(LayerPart::kLayer, 0, stream));
    NIBBLE_ASSIGN_OR_RETURN(cuda::Graph graph, stream.capture([&] {
      return trials_->enqueue(LayerPart::kLayer, 0, stream);
    }));
    for (int replay = 0; replay < repeats; ++replay) {
      NIBBLE_RETURN_IF_ERROR(trials_->spoil());
      NIBBLE_RETURN_IF_ERROR(graph.launch(stream));
      NIBBLE_RETURN_IF_ERROR(stream.synchronize());
      NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::uint16_t> y, trials_->output());
      run.digests.push_back(tune::digest_of(y.data(), y.size() * sizeof(y[0])));
      if (replay == 0) compare_whole(key, tactic, y, run);
    }
    return run;
  }

  Result<double> time_us(const tune::TuningKey& key, const tune::AnyTactic& tactic,
                         std::size_t round) override {
    NIBBLE_RETURN_IF_ERROR(use(key, tactic, key.tokens));
    const LayerPart part = is_gate_up(key) ? LayerPart::kGateUp : LayerPart::kDown;
    std::vector<cuda::Graph>& graphs = graphs_[tune::to_string(tactic)];
    if (graphs.empty()) NIBBLE_RETURN_IF_ERROR(capture(part, graphs));
    return timer_->time_us(graphs[next_copy_++ % graphs.size()], [&] {
      return trials_->draw_turn(part, round % kTurns, timer_->stream());
    });
  }

 private:
  explicit CudaTuner(const CudaTuneSetup& setup) : setup_(setup) {}

  const W4A16Problem& problem_of(const tune::TuningKey& key) const {
    return is_gate_up(key) ? trials_->problem().gate_up : trials_->problem().down;
  }
  static W4A16Tactic tactic_of(const tune::TuningKey& key, const CudaMoeTactics& tactics) {
    return is_gate_up(key) ? tactics.gate_up : tactics.down;
  }

  // The layer of a key at so many tokens, with default tactics in use.
  Result<> open(const tune::TuningKey& key, std::int64_t tokens) {
    NIBBLE_RETURN_IF_ERROR(check_key(key, gpu_->info()));
    BenchShape layer = layer_of_product(bench_shape(key.shape, setup_.tokens));
    if (layer.tokens.empty()) layer.tokens = {key.tokens};
    layer.name = "moe";
    const tune::TuningShape identity = tuning_shape(layer);
    if (!trials_ || !(identity == layer_)) {
      graphs_.clear();
      default_outputs_.clear();
      trials_.reset();
      tokens_ = 0;
      NIBBLE_ASSIGN_OR_RETURN(trials_, make_layer_trials(layer, {.gpu = *gpu_,
                                                                 .probes = *probes_,
                                                                 .routing = setup_.routing,
                                                                 .seed = setup_.seed}));
      layer_ = identity;
    }
    if (tokens == tokens_) return {};
    graphs_.clear();
    tokens_ = 0;
    NIBBLE_RETURN_IF_ERROR(trials_->begin(tokens));
    defaults_ = trials_->tactics();
    tokens_ = tokens;
    return {};
  }

  // The tactic in one product, the default in the other.
  Result<> use(const tune::TuningKey& key, const tune::AnyTactic& tactic, std::int64_t tokens) {
    NIBBLE_RETURN_IF_ERROR(open(key, tokens));
    const auto* chosen = std::get_if<W4A16Tactic>(&tactic);
    if (chosen == nullptr) return run_error("{} is no W4A16 tactic", tune::to_string(tactic));
    CudaMoeTactics tactics = defaults_;
    (is_gate_up(key) ? tactics.gate_up : tactics.down) = *chosen;
    const std::string op = key.shape.op;
    if (op != graphs_of_) graphs_.clear();
    graphs_of_ = op;
    return trials_->use(tactics);
  }

  // A graph for each copy of the weights, each run once: the first launch of a graph is no
  // measurement.
  Result<> capture(LayerPart part, std::vector<cuda::Graph>& graphs) {
    cuda::Stream& stream = timer_->stream();
    std::vector<cuda::Graph> made;
    for (int copy = 0; copy < trials_->copies(); ++copy) {
      NIBBLE_RETURN_IF_ERROR(trials_->draw_turn(part, 0, stream));
      NIBBLE_ASSIGN_OR_RETURN(cuda::Graph graph,
                              stream.capture([&] { return trials_->enqueue(part, copy, stream); }));
      made.push_back(std::move(graph));
      NIBBLE_RETURN_IF_ERROR(made.back().launch(stream));
    }
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    graphs = std::move(made);
    return {};
  }

  // Every token of the layer against the same layer with default tactics, where that was right: the
  // reference is asked for four of them. Both are off by one limit at most.
  void compare_whole(const tune::TuningKey& key, const tune::AnyTactic& tactic,
                     const std::vector<std::uint16_t>& y, tune::CheckRun& run) {
    const Element element = trials_->problem().gate_up.activations;
    const std::vector<float> values = wide(y, element);
    const auto wrong = std::find_if(values.begin(), values.end(),
                                    [](float value) { return !std::isfinite(value); });
    const std::size_t hidden = values.size() / static_cast<std::size_t>(tokens_);
    if (wrong != values.end()) {
      run.error = std::numeric_limits<double>::infinity();
      run.where =
          fmt::format("token {}", static_cast<std::size_t>(wrong - values.begin()) / hidden);
      return;
    }
    const std::string place = fmt::format("{} tokens", tokens_);
    if (tactic == tune::AnyTactic(tactic_of(key, defaults_))) {
      if (run.error <= run.limit) default_outputs_[place] = values;
      return;
    }
    const auto found = default_outputs_.find(place);
    if (found == default_outputs_.end() || found->second.size() != values.size()) return;
    for (std::size_t token = 0; token * hidden < values.size(); ++token) {
      double off = 0;
      double norm = 0;
      for (std::size_t at = token * hidden; at < (token + 1) * hidden; ++at) {
        const auto other = static_cast<double>(found->second[at]);
        off +=
            (static_cast<double>(values[at]) - other) * (static_cast<double>(values[at]) - other);
        norm += other * other;
      }
      const double error = norm > 0 ? std::sqrt(off / norm) / 2 : std::sqrt(off);
      if (error <= run.error) continue;
      run.error = error;
      run.where = fmt::format("token {}, against the default", token);
    }
  }

  CudaTuneSetup setup_;
  std::string compiler_;
  // In the order in which they need each other: destroyed from the last to the first.
  std::optional<cuda::Device> gpu_;
  std::optional<CudaProbes> probes_;
  std::optional<CudaTimer> timer_;
  std::shared_ptr<LayerTrials> trials_;
  std::map<std::string, std::vector<cuda::Graph>> graphs_;  // by tactic, of one product
  std::string graphs_of_;                                   // "moe.down"
  tune::TuningShape layer_;
  CudaMoeTactics defaults_;
  std::map<std::string, std::vector<float>> default_outputs_;  // y, by tokens
  std::int64_t tokens_ = 0;
  std::size_t next_copy_ = 0;
};

}  // namespace

Result<tune::WorkerService> make_cuda_tuner(const CudaTuneSetup& setup) {
  NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<CudaTuner> tuner, CudaTuner::make(setup));
  const CudaTuner* asked = tuner.get();
  return tune::WorkerService{.backend = std::move(tuner),
                             .lost = [asked] { return asked->lost(); }};
}

std::string device_code_version() {
  constexpr std::size_t kDigits = 12;
  cuda::Sha256 hash;
  for (const cuda::SourceFile& file : device_sources()) {
    hash.add_part(file.name);
    hash.add_part(file.text);
  }
  return hash.hex().substr(0, kDigits);
}

Result<tune::TuningSite> cuda_tuning_site(const cuda::DeviceInfo& info) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Driver* const driver, cuda::Driver::get());
  const int version = driver->version();
  return tune::TuningSite{.device = info.name,
                          .units = info.sms,
                          .driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10),
                          .kernel_version = device_code_version()};
}

Result<tune::TuningSite> cuda_tuning_site(int ordinal) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Device gpu, cuda::Device::open(ordinal));
  return cuda_tuning_site(gpu.info());
}

}  // namespace nibble
