#include "explain/floor.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

std::string catalog_source(const MachineSpec& machine, const Sourced& number) {
  return number.provenance == Provenance::kGiven ? number.source
                                                 : fmt::format("machine {}", machine.name);
}

FindingInput bandwidth_input(const Deployment& deployment) {
  const Sourced& bandwidth = deployment.machine.bandwidth_gb_s;
  return {"bandwidth", bandwidth.value * deployment.bandwidth_efficiency, "GB/s",
          catalog_source(deployment.machine, bandwidth)};
}

Finding parameters(const ModelSpec& model) {
  const ParameterCount count = count_parameters(model);
  Finding finding{
      .id = "model.parameters", .title = "Parameters", .value = count.total, .unit = "parameters"};
  finding.formula =
      "sum over layers of rows x columns x copies of every matrix of the configuration";
  finding.inputs = {
      {"layers", static_cast<double>(model.layers.size()), "", "config: num_hidden_layers"},
      {"hidden", static_cast<double>(model.hidden), "", "config: hidden_size"}};
  finding.assumptions = {
      "MTP layers are not counted; active leaves out the embedding table, which is a lookup"};
  finding.sentence = fmt::format(
      "{} has {} parameters, {} of them active per token; its weights take {} as stored.",
      model.title, format_count(count.total), format_count(count.active),
      format_bytes(checkpoint_bytes(model)));
  return finding;
}

Finding step_floor(const Deployment& deployment, const Step& step) {
  Finding finding{
      .id = "step.floor", .title = "Floor of the step", .value = step.step_us, .unit = "us"};
  finding.verdict = std::string(to_string(step.regime));
  finding.formula =
      "sum over operations of max(bytes / bandwidth, FLOP / peak, link time) + launch gap";
  finding.inputs = {bandwidth_input(deployment),
                    {"concurrency", step.concurrency, "sequences", "--concurrency"}};
  finding.assumptions = assumptions(deployment);
  std::string parts =
      fmt::format("memory-bound operations {}, compute-bound {}, collectives {}, launches {}",
                  format_time_us(step.bound_memory_us), format_time_us(step.bound_compute_us),
                  format_time_us(step.bound_link_us), format_time_us(step.bound_launch_us));
  if (step.pipeline_bubble_us > 0) {
    parts += fmt::format(", stages that wait for one another {}",
                         format_time_us(step.pipeline_bubble_us));
  }
  finding.sentence = fmt::format(
      "At {} a step cannot take less than {} ({} tok/s, {} per sequence): {}. Weights and KV "
      "alone, at the full "
      "bandwidth, are {}.",
      counted(step.concurrency, "sequence"), format_time_us(step.step_us),
      format_compact(step.tokens_per_s), format_compact(step.tokens_per_s_per_sequence), parts,
      format_time_us(step.weights_and_kv_us));
  return finding;
}

Finding largest_operation(const Step& step) {
  const auto most = std::max_element(
      step.ops.begin(), step.ops.end(),
      [](const Op& a, const Op& b) { return a.count * a.floor_us < b.count * b.floor_us; });
  const double time_us = most->count * most->floor_us;
  Finding finding{.id = "step.largest_operation",
                  .title = "Largest operation",
                  .value = time_us / step.step_us,
                  .unit = "ratio"};
  finding.verdict = most->name;
  finding.formula = "count x floor / step";
  finding.inputs = {{"count", most->count, "", "ledger"},
                    {"floor", most->floor_us, "us", "ledger"}};
  finding.sentence = fmt::format("{} ({} x {}) is the largest operation: {} of the step, {}-bound.",
                                 most->name, format_compact(most->count), most->shape.text,
                                 format_percent(time_us / step.step_us), to_string(most->regime));
  return finding;
}

Finding activity(const Step& step) {
  Finding finding{.id = "step.tensor_activity",
                  .title = "Tensor activity of a perfect run",
                  .value = step.tensor_activity * 100,
                  .unit = "%"};
  finding.formula = "FLOP time / step";
  finding.inputs = {{"compute", step.compute_us, "us", "ledger"},
                    {"step", step.step_us, "us", "ledger"}};
  finding.sentence = fmt::format(
      "A perfect run at {} keeps the tensor cores {} busy and DRAM {}: compare measured "
      "activities with "
      "these, not with 100 %.",
      counted(step.concurrency, "sequence"), format_percent(step.tensor_activity),
      format_percent(step.dram_activity));
  return finding;
}

Finding experts(const Deployment& deployment, const Step& step) {
  const MoeSpec& moe = *deployment.model.moe;
  const RoutingStats& routing = *step.routing;
  Finding finding{.id = "routing.distinct_experts",
                  .title = "Experts touched",
                  .value = routing.distinct,
                  .unit = "experts"};
  finding.formula = "sum over experts of 1 - (1 - pi)^tokens";
  finding.inputs = {{"tokens", routing.tokens, "tokens", "ledger"},
                    {"experts", static_cast<double>(moe.experts), "", "config"},
                    {"top_k", static_cast<double>(moe.top_k), "", "config"}};
  finding.assumptions = {
      fmt::format("routing {}; tokens choose independently", deployment.routing.source)};
  finding.sentence = fmt::format(
      "{} tokens touch {} of {} experts, {} rows each on average (p99 {}, busiest {}); tokens x "
      "top-k / experts "
      "would say {}.",
      format_compact(routing.tokens), format_compact(routing.distinct), moe.experts,
      format_compact(routing.rows_mean), format_compact(routing.rows_p99),
      format_compact(routing.rows_max), format_compact(routing.rows_mean_all));
  if (deployment.layout.ep > 1) {
    finding.sentence += fmt::format(
        " The busiest of {} ranks has {} experts and {} rows (mean {} and {}).",
        deployment.layout.ep, format_compact(routing.rank_distinct_max),
        format_compact(routing.rank_rows_max), format_compact(routing.rank_distinct_mean),
        format_compact(routing.rank_rows_mean));
  }
  return finding;
}

Finding memory(const Deployment& deployment, const Step& step, const Capacity& capacity) {
  const double fit = capacity.sequences(deployment.context);
  Finding finding{
      .id = "capacity.sequences", .title = "Sequences that fit", .value = fit, .unit = "sequences"};
  finding.formula =
      "(memory x utilization - weights) / KV bytes per token / context, x attention groups";
  finding.inputs = {{"memory", deployment.machine.memory_gb.value, "GB",
                     catalog_source(deployment.machine, deployment.machine.memory_gb)},
                    {"utilization", deployment.memory_utilization, "", "--memory-utilization"},
                    {"weights", capacity.weight_bytes_per_gpu, "B", "ledger"},
                    {"kv_per_token", capacity.kv_bytes_per_token, "B", "ledger"},
                    {"context", deployment.context, "tokens", "--context"}};
  finding.assumptions = {
      "activations, graphs and fragmentation take no memory beyond the utilization"};
  if (!capacity.limit.empty()) {
    finding.verdict = "does not fit";
    finding.sentence = fmt::format("This layout does not fit: {}.", capacity.limit);
    return finding;
  }
  finding.verdict = fit >= step.concurrency ? "fits" : "does not fit";
  finding.sentence = fmt::format(
      "Weights take {} per GPU{}; the cache holds {} tokens at {} per token and GPU, {} of {} "
      "tokens: {} {}.",
      format_bytes(capacity.weight_bytes_per_gpu),
      deployment.layout.pp > 1
          ? fmt::format(" on stage {}, which has least room", capacity.stage + 1)
          : "",
      format_count(capacity.tokens), format_bytes(capacity.kv_bytes_per_token),
      counted(fit, "sequence"), format_compact(deployment.context),
      counted(step.concurrency, "sequence"), fit >= step.concurrency ? "fit" : "do not fit");
  return finding;
}

// Quantization blocks that the cut of a matrix does not respect: engines pad, or refuse to start.
std::optional<Finding> misaligned_blocks(const Step& step) {
  std::string parts;
  std::size_t count = 0;
  for (const Op& op : step.ops) {
    if (op.misaligned.empty()) continue;
    ++count;
    parts += fmt::format("{}{}: {}", parts.empty() ? "" : "; ", op.name, op.misaligned);
  }
  if (count == 0) return std::nullopt;
  Finding finding{.id = "layout.block_alignment",
                  .title = "Blocks cut by the layout",
                  .value = static_cast<double>(count),
                  .unit = "operations",
                  .verdict = "misaligned"};
  finding.formula = "size on a GPU modulo block of the quantization";
  finding.inputs = {{"operations", static_cast<double>(count), "", "ledger"}};
  finding.confidence = Confidence::kLikely;
  finding.sentence = parts + ": engines pad each half, or refuse this layout.";
  return finding;
}

Result<Step> with_peaks_scaled(const Deployment& deployment, double concurrency, double factor) {
  Deployment changed = deployment;
  for (auto& [precision, peak] : changed.machine.peaks) peak.dense_tflops.value *= factor;
  return decode_step(changed, concurrency);
}

// A quoted peak may be sparse; what would change if the dense one were half or twice?
Result<Finding> peak_sensitivity(const Deployment& deployment, const Step& step) {
  NIBBLE_ASSIGN_OR_RETURN(const Step half, with_peaks_scaled(deployment, step.concurrency, 0.5));
  NIBBLE_ASSIGN_OR_RETURN(const Step twice, with_peaks_scaled(deployment, step.concurrency, 2));
  const double change = half.step_us / step.step_us - 1;
  Finding finding{.id = "step.peak_sensitivity",
                  .title = "Dense or sparse peak",
                  .value = change * 100,
                  .unit = "%"};
  std::vector<std::string> hanging;
  for (std::size_t index = 0; index < step.ops.size() && index < half.ops.size(); ++index) {
    const bool flips = half.ops[index].regime != step.ops[index].regime ||
                       twice.ops[index].regime != step.ops[index].regime;
    if (flips && std::find(hanging.begin(), hanging.end(), step.ops[index].name) == hanging.end()) {
      hanging.push_back(step.ops[index].name);
    }
  }
  finding.verdict = hanging.empty() && std::abs(change) < 0.01 ? "does not matter" : "matters";
  finding.formula = "step with half the peak / step - 1";
  finding.inputs = {{"step", step.step_us, "us", "ledger"},
                    {"step_half_peak", half.step_us, "us", "ledger"}};
  std::string names;
  for (const std::string& name : hanging) names += (names.empty() ? "" : ", ") + name;
  finding.sentence = fmt::format(
      "Were the real dense peaks half as high (a sparse number taken for a dense one), this step "
      "would be {} longer; {}.",
      format_percent(change),
      hanging.empty() ? "no operation would change its regime"
                      : "the regime of " + names + " hangs on it");
  return finding;
}

// How far the choice of the algorithm carries.
Result<Finding> collective_choice(const Deployment& deployment, const Step& step) {
  std::string others;
  for (const AllReduce algorithm : {AllReduce::kRing, AllReduce::kOneShot, AllReduce::kTwoShot}) {
    Deployment changed = deployment;
    changed.all_reduce = algorithm;
    NIBBLE_ASSIGN_OR_RETURN(const Step other, decode_step(changed, step.concurrency));
    others += fmt::format("{}{} {}", others.empty() ? "" : ", ", to_string(algorithm),
                          format_time_us(other.link_us));
  }
  const LinkSpeed link = deployment.effective_link();
  const std::string source =
      deployment.link ? "--link" : fmt::format("machine {}", deployment.machine.name);
  Finding finding{
      .id = "step.collectives", .title = "Collectives", .value = step.link_us, .unit = "us"};
  finding.verdict = std::string(to_string(deployment.all_reduce));
  finding.formula = "sum over collectives of latency and wire terms (docs/arithmetic.md)";
  finding.inputs = {{"link", link.bandwidth_gb_s, "GB/s", source},
                    {"latency", link.latency_us, "us", source}};
  finding.assumptions = {"not overlapped with computation"};
  finding.confidence = Confidence::kLikely;
  finding.sentence = fmt::format(
      "Collectives take {} of the step ({}) at {} GB/s and {} us per hop, all-reduces by the {} "
      "algorithm; with each "
      "algorithm: {}.",
      format_time_us(step.link_us), format_percent(step.link_us / step.step_us),
      format_compact(link.bandwidth_gb_s), format_compact(link.latency_us),
      to_string(deployment.all_reduce), others);
  return finding;
}

}  // namespace

Result<std::vector<Finding>> floor_findings(const Deployment& deployment, const Step& step,
                                            const Capacity& capacity) {
  std::vector<Finding> findings = {parameters(deployment.model), step_floor(deployment, step),
                                   largest_operation(step), activity(step)};
  if (step.routing) findings.push_back(experts(deployment, step));
  findings.push_back(memory(deployment, step, capacity));
  if (std::optional<Finding> misaligned = misaligned_blocks(step))
    findings.push_back(std::move(*misaligned));
  NIBBLE_ASSIGN_OR_RETURN(Finding peak, peak_sensitivity(deployment, step));
  findings.push_back(std::move(peak));
  if (deployment.layout.gpus() > 1) {
    NIBBLE_ASSIGN_OR_RETURN(Finding collectives, collective_choice(deployment, step));
    findings.push_back(std::move(collectives));
  }
  return findings;
}

}  // namespace nibble
