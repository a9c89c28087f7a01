// nibble.case/1: what somebody recorded, and what explain_case() makes of it.
#include <algorithm>
#include <fmt/format.h>

#include "base/stats.h"
#include "base/text.h"
#include "base/units.h"
#include "diagnose/read_floor.h"
#include "diagnose/read_level.h"
#include "ledger/shares.h"

namespace nibble::diagnose {
namespace {

constexpr double kMsPerUs = 1e-3;
constexpr double kPercentShare = 0.01;

std::string engine_slug(std::string_view name) {
  const std::string lower = to_lower(name);
  for (const auto& [part, engine] : {std::pair{"nibble", "nibble"},
                                     {"vllm", "vllm"},
                                     {"sglang", "sglang"},
                                     {"trt", "trtllm"},
                                     {"tensorrt", "trtllm"},
                                     {"llama", "llamacpp"}}) {
    if (lower.find(part) != std::string::npos) return engine;
  }
  return lower;
}

void read_case_setting(const CaseAnalysis& analysis, Setting& setting) {
  const Case& found = analysis.source;
  const ParallelLayout& layout = analysis.deployment.layout;
  setting.engine = engine_slug(found.engine);
  setting.model = analysis.deployment.model.title;
  setting.machine = found.gpus > 1
                        ? fmt::format("{} x {}", found.gpus, analysis.deployment.machine.title)
                        : analysis.deployment.machine.title;
  setting.title = fmt::format("{} on {}", setting.model, setting.machine);
  setting.gpus = found.gpus;
  setting.tp = layout.tp;
  setting.pp = layout.pp;
  setting.ep = layout.ep;
  if (found.max_running_requests) {
    setting.max_running = static_cast<double>(*found.max_running_requests);
  }
  read_machine_setting(analysis.deployment.machine, setting);
  for (const std::string& note : found.notes) setting.notes.push_back(note);
}

// What a case states is one number a level; where nothing was counted the reason says so.
class CaseLevel {
 public:
  CaseLevel(const CaseAnalysis& analysis, const LevelAnalysis& level, const FactWriter& writer)
      : source_(analysis.source), level_(level), writer_(writer) {}

  void put_all() const {
    for (std::size_t index = 0; index < kFacts; ++index) {
      fill_fact(writer_.level, static_cast<Fact>(index), missing(""));
    }
    put_load();
    put_latencies();
    put_gpus();
    for (Datum& datum : writer_.level.facts) {
      if (!datum.known() && datum.reason.empty()) datum.reason = "the case does not state it";
    }
  }

 private:
  void put(Fact fact, std::optional<double> value, std::string_view member) const {
    writer_.put(fact, value, member, "the case does not state it");
  }

  void put_load() const {
    const double users = level_.measured.concurrency;
    put(Fact::kUsers, users, "concurrency");
    fill_fact(writer_.level, Fact::kInFlight,
              derived(users, fmt::format("{}: {}.concurrency, taken as always in flight",
                                         writer_.context.name, writer_.where)));
    if (level_.output_tok_s > 0) put(Fact::kOutputRate, level_.output_tok_s, "output_tok_s");
    put(Fact::kPromptTokens, source_.input_len, "load.input_len");
    put(Fact::kOutputTokens, source_.output_len, "load.output_len");
    const std::optional<double> queue = level_.measured.queue_length;
    put(Fact::kWaiting, queue, "queue_length");
    if (queue && *queue <= users) {
      fill_fact(writer_.level, Fact::kRunning,
                derived(users - *queue, "concurrency less queue_length"));
    }
    if (level_.output_tok_s > 0 && source_.input_len && source_.output_len) {
      fill_fact(writer_.level, Fact::kPromptRate,
                derived(level_.output_tok_s * *source_.input_len / *source_.output_len,
                        "output rate x prompt tokens / output tokens"));
    }
  }

  void put_latencies() const {
    const MeasuredLevel& measured = level_.measured;
    if (measured.itl_ms) {
      put(Fact::kItlP50, measured.itl_ms->p50, "itl_ms.p50");
      put(Fact::kItlP99, measured.itl_ms->p99, "itl_ms.p99");
      put(Fact::kTpot, measured.itl_ms->mean, "itl_ms.mean");
    }
    if (!measured.ttft_ms) return;
    put(Fact::kTtft, measured.ttft_ms->mean, "ttft_ms.mean");
    put(Fact::kTtft, measured.ttft_ms->p50, "ttft_ms.p50");
  }

  void put_gpus() const {
    if (!level_.measured.gpus) return;
    const GpuSamples& gpus = *level_.measured.gpus;
    const auto put_mean = [&](Fact fact, const std::vector<double>& values, const char* member,
                              double factor) {
      if (!values.empty()) put(fact, nibble::mean(values) * factor, member);
    };
    put_mean(Fact::kPower, gpus.power_w, "gpus.power_w", 1);
    put_mean(Fact::kUtilization, gpus.utilization_pct, "gpus.utilization_pct", kPercentShare);
    put_mean(Fact::kSmClock, gpus.sm_mhz, "gpus.sm_mhz", 1);
  }

  const Case& source_;
  const LevelAnalysis& level_;
  const FactWriter& writer_;
};

void put_floor(const LevelAnalysis& level, LevelEvidence& evidence) {
  if (!level.floor_missing.empty()) {
    evidence.floor_reason = level.floor_missing;
    return;
  }
  evidence.floor = floor_parts(level.floor);
  evidence.floor_reason.clear();
  evidence[Fact::kFloor] = derived(evidence.floor->total(), "ledger");
  if (level.prefill) {
    evidence.prefill_floor = level.prefill->step_us * level.prefill_passes * kMsPerUs;
  }
}

Result<> read_level_of_case(const CaseAnalysis& analysis, const LevelAnalysis& level,
                            const ReadContext& context, Evidence& evidence) {
  const double users = level.measured.concurrency;
  LevelEvidence& found = evidence.levels[find_or_add_level(
      evidence, fmt::format("{} user{}", format_compact(users), users == 1 ? "" : "s"), users)];
  if (found[Fact::kOutputRate].known()) {
    return input_error("{}: {}: {} was measured in {} too; give one of them", context.name,
                       level.measured.path, found.name, found[Fact::kOutputRate].source);
  }
  const FactWriter writer{found, context, level.measured.path};
  CaseLevel(analysis, level, writer).put_all();
  put_floor(level, found);
  derive_power_facts(found, evidence.setting);
  return {};
}

KernelEvidence kernel_of(const KernelAnalysis& kernel, const ReadContext& context) {
  return {.op = kernel.measured.op.empty() ? "gemm" : kernel.measured.op,
          .kernel = kernel.measured.library,
          .shape = kernel.label,
          .tokens = kernel.measured.m.value_or(0),
          .time_us = kernel.time_us,
          .floor_us = std::max(kernel.memory_us, kernel.compute_us),
          .intensity = kernel.intensity,
          .tflops = kernel.measured.tflops.value_or(
              kernel.time_us > 0 ? kernel.flop / kernel.time_us * 1e-6 : 0),
          .source = place_in(context, kernel.measured.path)};
}

}  // namespace

Result<CaseAnalysis> read_case(const Json& json, const ReadContext& context, Evidence& evidence) {
  NIBBLE_RETURN_IF_ERROR(check_first_levels(context, evidence));
  NIBBLE_ASSIGN_OR_RETURN(const Case found, parse_case(json, context.name));
  NIBBLE_ASSIGN_OR_RETURN(CaseAnalysis analysis, explain_case(found, {}));
  read_case_setting(analysis, evidence.setting);
  for (const LevelAnalysis& level : analysis.levels) {
    NIBBLE_RETURN_IF_ERROR(read_level_of_case(analysis, level, context, evidence));
  }
  // Its proposals are of that level: what a case says and what is concluded must be of the same.
  const double users =
      analysis.levels.empty() ? 0 : analysis.levels[analysis.headline].measured.concurrency;
  for (std::size_t index = 0; index < evidence.levels.size(); ++index) {
    if (evidence.levels[index].get(Fact::kUsers) == users) evidence.told_by = index;
  }
  for (const KernelAnalysis& kernel : analysis.kernels) {
    if (kernel.time_us > 0) evidence.kernels.push_back(kernel_of(kernel, context));
  }
  if (evidence.kernels.empty()) evidence.kernels_reason = "the case times no kernel of known shape";
  if (evidence.trace_reason.empty()) evidence.trace_reason = "a case holds no trace";
  add_source(evidence, "case", context, std::nullopt);
  return analysis;
}

}  // namespace nibble::diagnose
