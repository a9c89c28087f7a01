#include "diagnose/read_cover.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "base/text.h"
#include "diagnose/cover.h"
#include "diagnose/read_evidence.h"
#include "diagnose/read_floor.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsPerUsOfStep = 1e-3;
constexpr double kGiga = 1e9;
constexpr std::size_t kMostSteps = 64;
constexpr double kMostTokens = 1 << 20;
constexpr std::size_t kMostOfOne = 8;  // numbers of tokens that one product is timed at

// What no catalog knows: the sums of the step need memory and matrix rate alone.
Result<MachineSpec> unknown_machine(const GpuEvidence& gpu) {
  const std::optional<double> read = gpu.roofs.value("read_gb_s");
  std::optional<double> matrix = gpu.roofs.value("bf16_tflops");
  if (!matrix) matrix = gpu.roofs.value("mma_bf16_tflops");
  if (!read || !matrix) {
    return run_error("the catalog has no {}, and its memory and matrix units were not measured",
                     gpu.roofs.title);
  }
  const auto measured = [&gpu](double value) {
    return Sourced{value, Provenance::kMeasured, gpu.source};
  };
  MachineSpec machine{.name = "this", .title = gpu.roofs.title, .arch = gpu.roofs.arch};
  machine.bandwidth_gb_s = measured(*read);
  machine.memory_gb = measured(gpu.roofs.memory_bytes / kGiga);
  machine.peaks[Precision::kBf16] = {.dense_tflops = measured(*matrix)};
  machine.sms = measured(gpu.roofs.sms);
  return machine;
}

std::string elsewhere(const GpuBeside& beside, const Evidence& evidence) {
  const GpuEvidence& gpu = *evidence.gpu;
  if (evidence.levels.empty()) return "";
  std::string served;
  if (evidence.setting.is_cpu) {
    served = evidence.setting.machine.empty() ? "a CPU" : evidence.setting.machine;
  } else if (!beside.served_on.empty() && !is_same_gpu(beside.served_on, gpu.roofs.title)) {
    served = printable(beside.served_on);
  }
  if (served.empty()) return "";
  return fmt::format(
      "The load was served by {}, and the kernels were timed on {} ({}): they say what a step "
      "would "
      "take there, and explain nothing of this load",
      served, gpu.roofs.title, gpu.on);
}

std::optional<GpuStep> step_at(const Deployment& deployment, double sequences, double context,
                               GpuEvidence& gpu) {
  Deployment at_context = deployment;
  at_context.context = context;
  const Result<Ledger> ledger = Ledger::make(std::move(at_context));
  const Result<Step> step = ledger ? ledger->decode(sequences) : Result<Step>(ledger.error());
  if (!step) {
    gpu.steps_reason = step.error().message;
    return std::nullopt;
  }
  return GpuStep{.level = std::nullopt,
                 .sequences = sequences,
                 .floor_ms = step->step_us * kMsPerUsOfStep,
                 .cover = cover_of(*step, deployment, gpu.rows)};
}

void cover_level(const Deployment& deployment, Evidence& evidence, std::size_t index) {
  GpuEvidence& gpu = *evidence.gpu;
  LevelEvidence& level = evidence.levels[index];
  const std::optional<double> sequences = sequences_of(level, evidence.setting);
  const std::optional<double> context = context_of(level);
  if (!sequences || !context) {
    gpu.steps_reason = "how many sequences ran, or how long they were, is not known";
    return;
  }
  std::optional<GpuStep> step = step_at(deployment, *sequences, *context, gpu);
  if (!step) return;
  step->level = index;
  if (gpu.served_elsewhere.empty() && level.floor) {
    level.cover = step->cover;
    Datum& kernels = level[Fact::kKernels];
    if (!kernels.known()) {
      kernels = missing(fmt::format("{} of {} operations of a step were timed on {}: no whole step",
                                    step->cover.covered(), step->cover.ops.size(), gpu.on));
    }
  }
  gpu.steps.push_back(*std::move(step));
}

// Without a load: at the tokens that were timed.
void cover_rows(const Deployment& deployment, GpuEvidence& gpu) {
  std::set<double> tokens;
  for (const GpuRow& row : gpu.rows) {
    if (row.time_us && row.tokens >= 1) tokens.insert(row.tokens);
  }
  for (const double sequences : tokens) {
    if (gpu.steps.size() == kMostSteps) return;
    auto step = step_at(deployment, sequences, deployment.context, gpu);
    if (step) gpu.steps.push_back(*std::move(step));
  }
}

struct LevelLoad {
  double sequences = 1;
  double context = 1;
};

std::vector<LevelLoad> loads_of(const Evidence& evidence, const Deployment& deployment,
                                const std::vector<double>& otherwise) {
  std::vector<LevelLoad> loads;
  for (const LevelEvidence& level : evidence.levels) {
    const std::optional<double> sequences = sequences_of(level, evidence.setting);
    if (!sequences) continue;
    loads.push_back({*sequences, context_of(level).value_or(deployment.context)});
  }
  if (!loads.empty()) return loads;
  for (const double sequences : otherwise) loads.push_back({sequences, deployment.context});
  return loads;
}

void add_product(const RankProduct& product, const std::string& name,
                 std::vector<ProductToTime>& products) {
  const auto tokens = static_cast<std::int64_t>(std::min(product.tokens, kMostTokens));
  const auto same = [&product](const ProductToTime& one) {
    const RankProduct& other = one.product;
    return other.part == product.part && other.format == product.format &&
           other.experts == product.experts && other.top_k == product.top_k &&
           other.n == product.n && other.k == product.k;
  };
  auto found = std::find_if(products.begin(), products.end(), same);
  if (found == products.end()) {
    found = products.insert(found, {.name = name, .product = product, .tokens = {}});
  }
  if (std::find(found->tokens.begin(), found->tokens.end(), tokens) == found->tokens.end()) {
    found->tokens.push_back(tokens);
  }
}

// Evenly spread over what was asked, its ends among them.
std::vector<std::int64_t> thinned(std::vector<std::int64_t> tokens) {
  std::sort(tokens.begin(), tokens.end());
  if (tokens.size() <= kMostOfOne) return tokens;
  std::vector<std::int64_t> kept;
  for (std::size_t at = 0; at < kMostOfOne; ++at) {
    kept.push_back(tokens[at * (tokens.size() - 1) / (kMostOfOne - 1)]);
  }
  return kept;
}

}  // namespace

Result<std::vector<ProductToTime>> products_to_time(const Deployment& deployment,
                                                    const Evidence& evidence,
                                                    const std::vector<double>& otherwise) {
  std::vector<ProductToTime> products;
  for (const LevelLoad& load : loads_of(evidence, deployment, otherwise)) {
    Deployment at_context = deployment;
    at_context.context = load.context;
    NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(std::move(at_context)));
    NIBBLE_ASSIGN_OR_RETURN(const Step step, ledger.decode(load.sequences));
    for (const RankProduct& product : rank_products(step, deployment)) {
      if (product.part.empty()) continue;
      const bool layer = product.part == "layer";
      add_product(product, layer ? "moe" : step.ops[product.ops.front()].name, products);
    }
  }
  for (ProductToTime& product : products) product.tokens = thinned(std::move(product.tokens));
  return products;
}

bool is_same_gpu(std::string_view one, std::string_view other) {
  const std::optional<MachineSpec> first = find_in_catalog(one);
  const std::optional<MachineSpec> second = find_in_catalog(other);
  if (first && second) return first->name == second->name;
  return to_lower(one) == to_lower(other);
}

void apply_measured_roofs(const GpuEvidence& gpu, MachineSpec& machine) {
  apply_gpu_roofs(
      {.roofs = gpu.roofs, .note = fmt::format("measured on {} ({})", gpu.on, gpu.source)},
      machine);
}

Result<MachineSpec> measured_machine(const GpuEvidence& gpu) {
  if (!gpu.catalog) return unknown_machine(gpu);
  MachineSpec machine = *gpu.catalog;
  apply_measured_roofs(gpu, machine);
  return machine;
}

void fill_gpu(const GpuBeside& beside, Evidence& evidence) {
  GpuEvidence& gpu = *evidence.gpu;
  gpu.served_elsewhere = elsewhere(beside, evidence);
  // Kernels of the machine that served do not stand under another one's roofs.
  const Json* roofs_of = evidence.roofs.is_object() ? evidence.roofs.find("source") : nullptr;
  const bool roofs_here = roofs_of != nullptr && *roofs_of == Json(gpu.source);
  if (roofs_here && !gpu.served_elsewhere.empty()) evidence.roofs = Json();
  Deployment deployment = beside.deployment;
  const bool same = gpu.served_elsewhere.empty();
  if (same && !beside.served_on.empty()) {
    apply_measured_roofs(gpu, deployment.machine);
  } else {
    Result<MachineSpec> machine = measured_machine(gpu);
    if (!machine) {
      gpu.steps_reason = machine.error().message;
      return;
    }
    deployment.machine = *std::move(machine);
  }
  const Result<Ledger> ledger = Ledger::make(deployment);
  if (!ledger) {
    gpu.steps_reason = ledger.error().message;
    return;
  }
  if (same) fill_floor(*ledger, evidence);
  if (same && beside.served_on.empty() && !evidence.levels.empty()) {
    evidence.setting.notes.push_back(
        fmt::format("which GPU served the load is not told: {} is taken for it (--gpu says "
                    "otherwise)",
                    gpu.roofs.title));
  }
  for (std::size_t level = 0; level < evidence.levels.size(); ++level) {
    cover_level(deployment, evidence, level);
  }
  if (evidence.levels.empty()) cover_rows(deployment, gpu);
}

}  // namespace nibble::diagnose
