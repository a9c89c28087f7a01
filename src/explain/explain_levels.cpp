// Load levels: measured time per step by Little's law, the floor of the same step, and the
// waterfall between them.
#include <algorithm>

#include "base/units.h"
#include "explain/explain_parts.h"
#include "ledger/shares.h"

namespace nibble {
namespace {

std::string expert_note(const Step& step, const MachineSpec& machine) {
  double bytes = 0;
  double layers = 0;
  for (const Op& op : step.ops) {
    if (!is_expert_gemm(op)) continue;
    bytes += op.count * op.bytes.weight_bytes;
    if (op.name == "moe.gate_up") layers += op.count;
  }
  if (layers == 0) return "no experts";
  return fmt::format("{} layers x {} at {} GB/s", format_number(layers),
                     format_bytes(bytes / layers), format_number(machine.bandwidth_gb_s.value));
}

std::string collective_note(const Scene& scene, const Step& step) {
  double count = 0;
  double link_us = 0;
  for (const Op& op : step.ops) {
    if (op.link_us <= 0) continue;
    count += op.count;
    link_us += op.count * op.link_us;
  }
  if (count == 0) return "no link traffic";
  return fmt::format("{} of {} on average, {} at {} GB/s and {} us a hop", format_number(count),
                     format_time_us(link_us / count), to_string(scene.deployment().all_reduce),
                     format_number(scene.deployment().effective_link().bandwidth_gb_s),
                     format_number(scene.deployment().effective_link().latency_us));
}

void add_term(LevelAnalysis& level, std::string id, std::string title, double time_us,
              std::string note) {
  level.waterfall.push_back({std::move(id), std::move(title), time_us, std::move(note)});
}

void add_decode_terms(const Scene& scene, LevelAnalysis& level) {
  const Step& step = level.floor;
  const StepShares shares = shares_of(step);
  if (scene.model().moe) {
    add_term(level, "expert_weights", "expert weights", shares.expert_weights,
             expert_note(step, scene.machine()));
  }
  add_term(level, "other_weights", "other weights", shares.other_weights,
           "attention, shared experts, dense layers, router, lm_head");
  add_term(level, "kv", "KV cache", shares.kv,
           level.context > 0
               ? fmt::format("{} tokens a sequence on average", format_number(level.context))
               : "lengths not stated: one token a sequence");
  add_term(level, "activations", "activations", shares.activations,
           "read and written once an operation");
  if (shares.compute > 0) {
    add_term(level, "compute", "matrix units", shares.compute,
             "beyond the memory time of the same operations");
  }
  if (shares.collectives > 0) {
    add_term(level, "collectives", "collectives", shares.collectives, collective_note(scene, step));
  }
  add_term(level, "launches", "launches", shares.launches,
           fmt::format("{} us between kernels",
                       format_number(scene.deployment().effective_launch_gap_us())));
  if (step.pipeline_bubble_us > 0) {
    add_term(level, "pipeline_bubble", "pipeline bubble", step.pipeline_bubble_us,
             "stages that wait");
  }
}

double sum(const std::vector<WaterfallTerm>& terms) {
  double total = 0;
  for (const WaterfallTerm& term : terms) total += term.time_us;
  return total;
}

// One step's share of the passes over the prompts. A scheduler that lets prompts ride along with
// decode steps reads the weights less often still, so the term is cut where less time is left.
void add_prefill_term(LevelAnalysis& level) {
  if (!level.prefill) return;
  const double alone_us = level.prefill->step_us * level.prefill_passes;
  const double left_us = level.measured_step_us - sum(level.waterfall);
  std::string note = fmt::format("{} prompt tokens a step, in passes of {}",
                                 format_number(level.prefill->rows * level.prefill_passes),
                                 format_number(level.prefill->rows));
  if (alone_us > left_us) {
    note += fmt::format(", would take {}: more is not left, so prompts share passes",
                        format_time_us(alone_us));
  }
  add_term(level, "prefill", "prefill", std::min(alone_us, left_us), std::move(note));
}

void build_waterfall(const Scene& scene, LevelAnalysis& level) {
  if (level.measured_step_us <= 0 || !level.floor_missing.empty()) return;
  add_decode_terms(scene, level);
  if (sum(level.waterfall) > level.measured_step_us) {
    level.waterfall.clear();  // over 100 % of a roof: an accounting error, never a negative bar
    return;
  }
  add_prefill_term(level);
  add_term(level, "unexplained", "unexplained", level.measured_step_us - sum(level.waterfall),
           "kernel, collective and runtime loss together");
}

void price_prefill(const Scene& scene, LevelAnalysis& level) {
  const Case& found = scene.found;
  if (!found.input_len || !found.output_len) return;
  const double prompts = level.running / *found.output_len;  // that arrive per step in steady state
  const double in_pass = std::max({1.0, prompts, kPrefillChunkTokens / *found.input_len});
  const Result<Step> pass =
      prefill_chunk(scene.deployment(), std::max(1.0, in_pass * *found.input_len), in_pass, 0);
  if (!pass) return;
  level.prefill = *pass;
  level.prefill_passes = prompts / in_pass;
}

int signals(const LevelAnalysis& level) {
  const MeasuredLevel& measured = level.measured;
  int count = 0;
  if (level.output_tok_s > 0) count += 4;  // without a rate nothing can be explained
  count += int{measured.itl_ms.has_value()} + int{measured.ttft_ms.has_value()} +
           int{measured.queue_length.has_value()};
  if (measured.gpus) {
    count += int{!measured.gpus->power_w.empty()} + int{!measured.gpus->utilization_pct.empty()} +
             int{!measured.gpus->sm_mhz.empty()};
  }
  return count;
}

}  // namespace

Result<> measure_levels(Scene& scene) {
  for (const MeasuredLevel& measured : scene.found.levels) {
    LevelAnalysis level;
    level.measured = measured;
    level.running = std::max(1.0, running(scene.found, measured.concurrency));
    level.context = mean_context(scene.found).value_or(0);
    level.output_tok_s =
        output_rate(scene.found, measured.output_tok_s, measured.total_tok_s).value_or(0);
    if (level.output_tok_s > 0) level.measured_step_us = level.running / level.output_tok_s * 1e6;
    Result<Step> floor = decode_step(scene.deployment(), level.running);
    if (floor) {
      level.floor = *std::move(floor);
      price_prefill(scene, level);
    } else {
      level.floor_missing = floor.error().message;
    }
    build_waterfall(scene, level);
    scene.analysis.levels.push_back(std::move(level));
  }
  std::vector<LevelAnalysis>& levels = scene.analysis.levels;
  for (std::size_t index = 0; index < levels.size(); ++index) {
    if (signals(levels[index]) >= signals(levels[scene.analysis.headline])) {
      scene.analysis.headline = index;
    }
  }
  return {};
}

}  // namespace nibble
