#include "ledger/step.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "ledger/operations.h"

namespace nibble {
namespace {

constexpr double kDefaultLaunchGapUs = 1;  // between dependent kernels of a replayed CUDA graph
constexpr double kMostConcurrency = 1e7;

Result<> in_range(std::string_view flag, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return usage_error("{} is {}; give a number from {} to {}", flag, format_number(value),
                     format_number(low), format_number(high));
}

Result<> validate_numbers(const Deployment& deployment) {
  NIBBLE_RETURN_IF_ERROR(in_range("--context", deployment.context, 1, 1e8));
  if (deployment.model.max_context > 0 &&
      deployment.context > static_cast<double>(deployment.model.max_context)) {
    return usage_error("--context {} is longer than the {} tokens that {} was made for",
                       format_number(deployment.context), deployment.model.max_context,
                       deployment.model.name);
  }
  NIBBLE_RETURN_IF_ERROR(
      in_range("--bandwidth-efficiency", deployment.bandwidth_efficiency, 0.01, 1));
  NIBBLE_RETURN_IF_ERROR(
      in_range("--draft-tokens", static_cast<double>(deployment.draft_tokens), 0, 64));
  NIBBLE_RETURN_IF_ERROR(in_range("--memory-utilization", deployment.memory_utilization, 0.01, 1));
  if (deployment.launch_gap_us) {
    NIBBLE_RETURN_IF_ERROR(in_range("--launch-gap-us", *deployment.launch_gap_us, 0, 1e6));
  }
  const auto moe_layers = static_cast<std::size_t>(
      std::count_if(deployment.model.layers.begin(), deployment.model.layers.end(),
                    [](const LayerSpec& layer) { return layer.moe; }));
  const std::size_t lists = deployment.routing.counts.size();
  if (lists > 1 && lists != moe_layers) {
    return input_error(
        "{}: \"counts\" has {} lists; give one, or one for each of the {} MoE layers of {}",
        deployment.routing.source, lists, moe_layers, deployment.model.name);
  }
  const bool one_gpu = deployment.layout.gpus() == 1;
  if (!one_gpu && !deployment.link && deployment.machine.links.empty()) {
    return usage_error("{} has no link in the catalog; give --link GB/s", deployment.machine.name);
  }
  if (!one_gpu) {
    const LinkSpeed link = deployment.effective_link();
    NIBBLE_RETURN_IF_ERROR(
        in_range("the link's bandwidth in GB/s", link.bandwidth_gb_s, 1e-3, 1e6));
    NIBBLE_RETURN_IF_ERROR(in_range("the link's latency in us", link.latency_us, 0, 1e6));
  }
  return {};
}

// Layers with the same arithmetic: the spec and every matrix's shape and format agree.
bool same_class(const LayerClass& a, const LayerSpec& layer, const std::vector<Weight>& weights) {
  const LayerSpec& other = a.layer;
  if (!(other.span == layer.span) || other.indexer != layer.indexer ||
      other.sparse != layer.sparse || other.moe != layer.moe ||
      other.dense_intermediate != layer.dense_intermediate) {
    return false;
  }
  return std::equal(a.weights.begin(), a.weights.end(), weights.begin(), weights.end(),
                    [](const Weight& x, const Weight& y) {
                      return x.part == y.part && x.rows == y.rows && x.columns == y.columns &&
                             x.copies == y.copies && x.format == y.format &&
                             x.activations == y.activations;
                    });
}

// Pipeline stages take consecutive layers; the first `layers % pp` stages take one more.
std::size_t stage_of_layer(std::size_t layer, std::size_t layers, std::size_t stages) {
  const std::size_t each = layers / stages;
  const std::size_t longer = layers % stages;
  const std::size_t in_longer = longer * (each + 1);
  return layer < in_longer ? layer / (each + 1) : longer + (layer - in_longer) / each;
}

bool same_op(const Op& a, const Op& b) {
  return a.name == b.name && a.shape.text == b.shape.text && a.format == b.format &&
         a.bytes.weight_bytes == b.bytes.weight_bytes && a.bytes.kv_bytes == b.bytes.kv_bytes &&
         a.flop == b.flop;
}

void append_counted(std::vector<Op>& ops, std::vector<Op> more, double count) {
  for (Op& op : more) {
    auto found =
        std::find_if(ops.begin(), ops.end(), [&](const Op& known) { return same_op(known, op); });
    if (found != ops.end()) {
      found->count += count;
    } else {
      op.count = count;
      ops.push_back(std::move(op));
    }
  }
}

double total_floor_us(const std::vector<Op>& ops) {
  double total = 0;
  for (const Op& op : ops) total += op.count * op.floor_us;
  return total;
}

Regime largest(double memory_us, double compute_us, double link_us, double launch_us) {
  const double most = std::max({memory_us, compute_us, link_us, launch_us});
  if (most == memory_us) return Regime::kMemory;
  if (most == compute_us) return Regime::kCompute;
  return most == link_us ? Regime::kLink : Regime::kLaunch;
}

// Each operation's time belongs to the roof that binds it, its gaps to launches; with the bubble
// the four add up to the step.
void add_bound_times(Step& step) {
  for (const Op& op : step.ops) {
    const double run_us = op.count * (op.floor_us - op.launch_us);
    step.bound_launch_us += op.count * op.launch_us;
    switch (op.regime) {
      case Regime::kMemory:
        step.bound_memory_us += run_us;
        break;
      case Regime::kCompute:
        step.bound_compute_us += run_us;
        break;
      case Regime::kLink:
        step.bound_link_us += run_us;
        break;
      case Regime::kLaunch:
        step.bound_launch_us += run_us;
        break;
    }
  }
  step.regime = largest(step.bound_memory_us, step.bound_compute_us, step.bound_link_us,
                        step.bound_launch_us);
}

void add_totals(Step& step, double bandwidth_bytes_us) {
  for (const Op& op : step.ops) {
    step.weight_bytes += op.count * op.bytes.weight_bytes;
    step.scale_bytes += op.count * op.bytes.scale_bytes;
    step.kv_bytes += op.count * op.bytes.kv_bytes;
    step.activation_bytes += op.count * op.bytes.activation_bytes;
    step.link_bytes += op.count * op.bytes.link_bytes;
    step.flop += op.count * op.flop;
    step.memory_us += op.count * op.memory_us;
    step.compute_us += op.count * op.compute_us;
    step.link_us += op.count * op.link_us;
    step.launch_us += op.count * op.launch_us;
  }
  step.weights_and_kv_us = (step.weight_bytes + step.kv_bytes) / bandwidth_bytes_us;
}

}  // namespace

std::string_view to_string(Regime regime) {
  switch (regime) {
    case Regime::kMemory:
      return "memory";
    case Regime::kCompute:
      return "compute";
    case Regime::kLink:
      return "link";
    case Regime::kLaunch:
      return "launch";
  }
  return "";
}

Format Deployment::effective_kv_format() const {
  return kv_format.value_or(model.quantization.kv_format().value_or(Format::kBf16));
}

LinkSpeed Deployment::effective_link() const {
  if (link) return *link;
  if (machine.links.empty()) return {};
  return {machine.links.front().bandwidth_gb_s.value, machine.links.front().latency_us.value};
}

double Deployment::effective_launch_gap_us() const {
  if (launch_gap_us) return *launch_gap_us;
  return machine.launch_gap_us ? machine.launch_gap_us->value : kDefaultLaunchGapUs;
}

Ledger::Ledger(Deployment deployment) : deployment_(std::move(deployment)) {}
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

Result<Ledger> Ledger::make(Deployment deployment) {
  NIBBLE_RETURN_IF_ERROR(validate(deployment.layout, deployment.model));
  NIBBLE_RETURN_IF_ERROR(validate_numbers(deployment));
  Ledger ledger(std::move(deployment));
  ledger.classify_layers();
  return ledger;
}

void Ledger::classify_layers() {
  const ModelSpec& model = deployment_.model;
  const auto stages = static_cast<std::size_t>(deployment_.layout.pp);
  outer_ = outer_weights(model);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    std::vector<Weight> weights = layer_weights(model, layer);
    auto found = std::find_if(classes_.begin(), classes_.end(), [&](const LayerClass& known) {
      return same_class(known, model.layers[layer], weights);
    });
    if (found == classes_.end()) {
      classes_.push_back(
          {model.layers[layer], std::move(weights), std::vector<double>(stages, 0), layer});
      found = std::prev(classes_.end());
    }
    found->count_of_stage[stage_of_layer(layer, model.layers.size(), stages)] += 1;
  }
}

void Ledger::price_op(Op& op) const {
  const MachineSpec& machine = deployment_.machine;
  const double bytes_per_us = machine.bandwidth_gb_s.value * 1e3 * deployment_.bandwidth_efficiency;
  op.memory_us = op.bytes.dram() / bytes_per_us;
  if (op.flop > 0) {
    const Format stand_in = op.precision == Precision::kFp8 ? Format::kFp8 : Format::kBf16;
    if (machine.peak(op.precision) == nullptr)
      op.precision = compute_precision(machine, stand_in, stand_in);
    op.compute_us = op.flop / (machine.peak(op.precision)->dense_tflops.value * 1e6);
    op.tile_us = op.compute_us;
    if (deployment_.tile && op.shape.k > 0 && machine.sms) {
      const TileShape& tile = *deployment_.tile;
      op.coverage =
          wave_coverage(tile, op.shape.m, op.shape.n, machine.sms->value, op.shape.groups);
      op.padding = padding_efficiency(tile, op.shape.m);
      op.tile_us = op.compute_us / (*op.coverage * *op.padding);
    }
  }
  op.launch_us = op.launches * deployment_.effective_launch_gap_us();
  op.floor_us = std::max({op.memory_us, op.tile_us, op.link_us}) + op.launch_us;
  op.regime = largest(op.memory_us, op.tile_us, op.link_us, op.launch_us);
  if (op.floor_us > 0) {
    op.tensor_activity = op.compute_us / op.floor_us;
    op.dram_activity = op.memory_us / op.floor_us;
  }
}

std::vector<Op> Ledger::stage_ops(const Pass& pass, const RoutingStats* routing,
                                  std::size_t stage) const {
  const StageContext context{deployment_, pass, routing};
  const std::size_t last = static_cast<std::size_t>(deployment_.layout.pp) - 1;
  std::vector<Op> ops;
  if (stage == 0) append_counted(ops, first_stage_operations(context, outer_), 1);
  for (const LayerClass& layer : classes_) {
    if (layer.count_of_stage[stage] > 0) {
      append_counted(ops, layer_operations(context, layer), layer.count_of_stage[stage]);
    }
  }
  if (stage == last) {
    append_counted(ops, last_stage_operations(context, outer_), 1);
  } else {
    append_counted(ops, {stage_transfer(context)}, 1);
  }
  for (Op& op : ops) price_op(op);
  return ops;
}

// A stage runs the microbatches one after another; with fewer of them than stages, stages wait.
Result<Step> Ledger::price(const Pass& pass, double microbatches) const {
  Step step;
  step.microbatches = microbatches;
  if (deployment_.model.moe) {
    const MoeSpec& moe = *deployment_.model.moe;
    NIBBLE_ASSIGN_OR_RETURN(
        step.routing, routing_stats(deployment_.routing, moe.experts, moe.top_k, pass.routed_rows,
                                    deployment_.layout.moe_ep()));
  }
  const RoutingStats* routing = step.routing ? &*step.routing : nullptr;
  double slowest = -1;
  for (std::int64_t stage = 0; stage < deployment_.layout.pp; ++stage) {
    std::vector<Op> ops = stage_ops(pass, routing, static_cast<std::size_t>(stage));
    const double time_us = total_floor_us(ops);
    if (time_us <= slowest) continue;
    slowest = time_us;
    step.stage = stage;
    step.ops = std::move(ops);
  }
  for (Op& op : step.ops) op.count *= microbatches;
  const double turns = std::max(microbatches, static_cast<double>(deployment_.layout.pp));
  step.pipeline_bubble_us = (turns - microbatches) * slowest;
  step.step_us = turns * slowest;
  add_totals(step,
             deployment_.machine.bandwidth_gb_s.value * 1e3 * deployment_.bandwidth_efficiency);
  add_bound_times(step);
  step.tensor_activity = step.compute_us / step.step_us;
  step.dram_activity = step.memory_us / step.step_us;
  return step;
}

Result<Step> Ledger::decode(double concurrency) const {
  if (!(concurrency >= 1 && concurrency <= kMostConcurrency)) {
    return usage_error("--concurrency is {}; give a number from 1 to 10,000,000",
                       format_number(concurrency));
  }
  const ParallelLayout& layout = deployment_.layout;
  const auto groups = static_cast<double>(layout.attention_dp());
  const double microbatches = std::min(static_cast<double>(layout.in_flight()), concurrency);
  const double rows_each = 1 + static_cast<double>(deployment_.draft_tokens);
  Pass pass;
  const double in_microbatch = std::ceil(concurrency / microbatches);
  pass.sequences = std::ceil(in_microbatch / groups);
  pass.rows = pass.sequences * rows_each;
  pass.routed_rows = in_microbatch * rows_each;
  pass.gathered_rows = layout.dp_attention
                           ? std::ceil(pass.routed_rows / static_cast<double>(layout.dp))
                           : pass.rows;
  pass.past = deployment_.context;
  pass.logits_rows = pass.gathered_rows;
  NIBBLE_ASSIGN_OR_RETURN(Step step, price(pass, microbatches));
  step.concurrency = concurrency;
  step.rows = concurrency * rows_each;
  step.tokens_per_s = concurrency / step.step_us * 1e6;
  step.tokens_per_s_per_sequence = 1e6 / step.step_us;
  return step;
}

Result<Step> Ledger::prefill(double tokens, double sequences, double past) const {
  if (!(tokens >= 1 && tokens <= kMostConcurrency && sequences >= 1 && sequences <= tokens &&
        past >= 0)) {
    return usage_error("cannot prefill {} tokens of {} sequences after {}", format_number(tokens),
                       format_number(sequences), format_number(past));
  }
  const ParallelLayout& layout = deployment_.layout;
  const auto groups = static_cast<double>(layout.attention_dp());
  Pass pass;
  pass.prefill = true;
  // A group takes whole sequences when there are several, or a share of the only one's tokens.
  pass.rows = std::ceil(tokens / groups);
  pass.sequences = std::max(1.0, sequences / groups);
  pass.routed_rows = tokens;
  pass.gathered_rows =
      layout.dp_attention ? std::ceil(tokens / static_cast<double>(layout.dp)) : pass.rows;
  pass.past = past;
  pass.logits_rows = sequences;
  NIBBLE_ASSIGN_OR_RETURN(Step step, price(pass, 1));
  step.concurrency = sequences;
  step.rows = tokens;
  step.tokens_per_s = tokens / step.step_us * 1e6;
  step.tokens_per_s_per_sequence = step.tokens_per_s / sequences;
  return step;
}

Result<Step> decode_step(const Deployment& deployment, double concurrency) {
  NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(deployment));
  return ledger.decode(concurrency);
}

Result<Step> prefill_chunk(const Deployment& deployment, double tokens, double sequences,
                           double past) {
  NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(deployment));
  return ledger.prefill(tokens, sequences, past);
}

Result<Capacity> kv_capacity(const Deployment& deployment) {
  NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(deployment));
  return ledger.capacity();
}

}  // namespace nibble
