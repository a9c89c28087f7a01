// Two diagnoses filled by hand, for what shows diagnoses: one with every part, of a GLM-5 on eight
// GPUs whose scheduler runs 64 requests at most, and one of which hardly anything is known, with
// texts as nobody should choose them.
//
//   const Document document = diagnosis_document(full_diagnosis(), {.command = "nibble diagnose"});
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fmt/core.h>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/diagnosis.h"

namespace nibble::diagnose {

inline constexpr std::string_view kHostileText = "<script>alert(1)</script>";

// users, tokens/s, running, TTFT ms, TPOT ms, floor of the step ms
struct FixtureLevel {
  double users, rate, running, ttft, tpot, floor;
};
inline constexpr std::array<FixtureLevel, 5> kFixtureLevels = {{{1, 39.6, 1, 190, 25.3, 6.2},
                                                                {16, 410, 16, 260, 39.0, 13.4},
                                                                {64, 900, 64, 420, 71.1, 25.9},
                                                                {256, 905, 64, 14200, 70.7, 25.9},
                                                                {512, 902, 64, 37900, 71.0, 25.9}}};
inline constexpr std::size_t kFixtureHeadline = 3;
inline constexpr double kFixtureStride = 60;  // s from one level's start to the next one's

inline LevelEvidence fixture_evidence(std::size_t at) {
  const FixtureLevel& from = kFixtureLevels[at];
  LevelEvidence level{.name = fmt::format("{:.0f} users", from.users)};
  const auto put = [&level, at](Fact fact, double value, const char* name) {
    level[fact] =
        recorded(value, fmt::format("/srv/runs/monday/load.json: levels[{}].{}", at, name));
  };
  put(Fact::kUsers, from.users, "max_concurrency");
  put(Fact::kInFlight, from.users, "mean_in_flight");
  put(Fact::kOutputRate, from.rate, "steady.output_throughput");
  put(Fact::kRateNoise, 0.012, "ci.output_throughput");
  put(Fact::kTtft, from.ttft, "mean_ttft_ms");
  put(Fact::kTpot, from.tpot, "mean_tpot_ms");
  put(Fact::kRunning, from.running, "joined.server_running");
  put(Fact::kWaiting, from.users - from.running, "joined.server_waiting");
  put(Fact::kKvUsage, 0.22, "joined.server_kv_usage");
  put(Fact::kPower, 235, "joined.power");
  level[Fact::kPower].source = "node7:9753/gpu4.power and 7 more";
  put(Fact::kPowerShare, 0.39, "joined.power");
  level[Fact::kFloor] = derived(from.floor, "ledger: decode(64)");
  level[Fact::kOccupancy] = missing("the server does not say how long its steps are");
  level[Fact::kServerStep] = missing("the server does not say how long its steps are");
  level[Fact::kKernels] = missing("no kernels were timed; give --kernels bench.json");
  level.start_s = kFixtureStride * static_cast<double>(at) + 10;
  level.end_s = kFixtureStride * static_cast<double>(at) + 50;
  return level;
}

// A step's parts grow with what runs; what is left over is unexplained.
inline LevelDiagnosis fixture_level(std::size_t at) {
  const FixtureLevel& from = kFixtureLevels[at];
  const double step = from.running / from.rate * 1000;
  const double share = from.floor / 25.9;
  LevelDiagnosis level{.name = fmt::format("{:.0f} users", from.users), .users = from.users};
  level.measured_ms = from.users / from.rate * 1000;
  const auto add = [&level](const char* id, const char* title, double ms, const char* note) {
    level.waterfall.push_back({.id = id, .title = title, .ms = ms, .note = note});
  };
  add("expert_weights", "expert weights, read once", 15.1 * share, "by the ledger");
  add("other_weights", "other weights", 2.9, "by the ledger");
  add("kv", "KV cache", 0.4 * share, "by the ledger");
  add("activations", "activations", 0.2 * share, "by the ledger");
  add("compute", "arithmetic", 0, "hidden behind memory");
  add("collectives", "collectives", 1.9 * share, "156 all-reduces, two-shot over PCIe");
  add("launches", "launches", 1.2, "1 us between kernels");
  level.waterfall.push_back({.id = "kernels",
                             .title = "kernels above their floor",
                             .reason = "no kernels were timed; give --kernels bench.json"});
  add("prefill", "prefill in shared steps", 3.1 * share, "the prompts that come in");
  add("host", "host between steps", 2.2, "");
  level.waterfall.push_back({.id = "clocks",
                             .title = "clocks below their boost",
                             .reason = "the SM clock was not sampled"});
  add("collectives_excess", "collectives above their floor", 9.8 * share, "");
  double sum = 0;
  for (const WaterfallBar& bar : level.waterfall) sum += bar.ms.value_or(0);
  add("unexplained", "unexplained", step - sum, "what no signal accounts for");
  add("queue", "queue before the batch", *level.measured_ms - step, "waiting / rate");
  level.joules_per_token = 8 * 235 / from.rate;
  level.joules_floor = 8 * 235 / from.rate * from.floor / step;
  return level;
}

inline Verdict fixture_cap_verdict() {
  return {
      .cls = Class::kSchedulerCap,
      .confidence = 0.93,
      .certainty = Certainty::kCertain,
      .evidence_for = {{.id = "running_at_cap",
                        .sentence = "64 requests run at 256 and at 512 users, and the server is "
                                    "configured for 64",
                        .weight = 1},
                       {.id = "queue",
                        .sentence = "192 requests wait while the KV cache is 22 % full",
                        .weight = 1},
                       {.id = "flat",
                        .sentence = "twice the users gain -0.3 % tok/s and add 23,700 ms of TTFT",
                        .weight = 0.5}},
      .evidence_against = {{.id = "step_slow",
                            .sentence = "a step takes 2.7 x its floor, so more requests gain less "
                                        "than proportionally",
                            .weight = 0.2}},
      .missing = {{.id = "occupancy",
                   .sentence = "the server does not say how long its steps are",
                   .weight = 0.2}},
      .sentence =
          "The server runs 64 requests at most and lets 192 wait, though memory for 4 x as "
          "many is free.",
      .experiment = "run 256 users with --max-num-seqs 256 and look whether running follows",
      .experiment_id = "more_users"};
}

inline Verdict fixture_collectives_verdict() {
  return {.cls = Class::kCollectives,
          .confidence = 0.41,
          .certainty = Certainty::kPossible,
          .evidence_for = {{.id = "power_low",
                            .sentence = "GPUs draw 235 W of 600 W at 100 % utilization",
                            .weight = 0.5}},
          .missing = {{.id = "dram", .sentence = "DRAM activity was not sampled", .weight = 0.5}},
          .sentence = "Collectives over PCIe may take 9.8 ms more than they need.",
          .experiment = "time one all-reduce of 786,432 B alone"};
}

inline std::vector<Proposal> fixture_proposals() {
  return {{.id = "raise_cap",
           .title = "Raise the cap on running requests to 256",
           .at_most_ms = 212.2,
           .at_most_ratio = 2.31,
           .cost = "a restart",
           .depends_on = "that memory for 256 sequences of 3,600 tokens stays free",
           .how = "vLLM: --max-num-seqs 256",
           .evidence = "192 requests wait while the KV cache is 22 % full",
           .because = Class::kSchedulerCap},
          {.id = "all_reduce",
           .title = "Use the custom all-reduce through peer-to-peer copies",
           .at_most_ms = 9.8,
           .at_most_ratio = 1.16,
           .cost = "a restart, and a driver that allows peer access",
           .depends_on = "collectives being what the step waits for",
           .how = "vLLM: leave out --disable-custom-all-reduce; server at http://node7:8000",
           .evidence = "collectives above their floor: 9.8 ms",
           .because = Class::kCollectives},
          {.id = "graphs",
           .title = "Capture the step in CUDA graphs",
           .at_most_ms = 2.2,
           .at_most_ratio = 1.03,
           .cost = "a restart",
           .how = "vLLM: leave out --enforce-eager",
           .because = Class::kLaunchHost}};
}

// A value that swings a little around that of the level in force.
inline Series fixture_series(std::string name, std::string unit,
                             const std::array<double, 5>& levels, double swing) {
  Series series{.name = std::move(name), .unit = std::move(unit), .points = {}};
  for (int second = 0; second <= 294; second += 6) {
    const double at = second;
    const auto level = static_cast<std::size_t>(at / kFixtureStride);
    const double inside = std::fmod(at, kFixtureStride);
    const double ramp = inside < 6 ? inside / 6 : inside > 54 ? (60 - inside) / 6 : 1;
    series.points.emplace_back(at,
                               std::max(0.0, levels[level] * ramp + swing * std::sin(at * 0.9)));
  }
  return series;
}

inline void add_fixture_series(Evidence& evidence) {
  evidence.series.push_back(
      fixture_series("client.output_rate", "tok/s", {39.6, 410, 900, 905, 902}, 9));
  evidence.series.push_back(fixture_series("server.running", "", {1, 16, 64, 64, 64}, 0));
  evidence.series.push_back(fixture_series("server.waiting", "", {0, 0, 0, 192, 448}, 0));
  evidence.series.push_back(fixture_series("server.kv_usage", "%", {1, 6, 22, 22, 22}, 0.2));
  for (int gpu = 0; gpu < 8; ++gpu) {
    const std::string owner =
        gpu < 4 ? fmt::format("gpu{}", gpu) : fmt::format("node7:9753/gpu{}", gpu);
    evidence.series.push_back(
        fixture_series(owner + ".power", "W", {140, 190, 235, 235, 234}, 3.0 + gpu));
    evidence.series.push_back(
        fixture_series(owner + ".sm_active", "%", {88, 93, 97, 97, 97}, 1.0 + 0.1 * gpu));
    evidence.series.push_back(
        fixture_series(owner + ".dram", "%", {22, 26, 31, 31.2, 31}, 1.0 + 0.1 * gpu));
  }
  evidence.series.push_back(
      fixture_series("gpu0.sm_clock", "MHz", {2400, 2400, 2390, 2385, 2380}, 8));
  evidence.series.push_back(fixture_series("gpu0.temperature", "C", {48, 55, 61, 62, 62}, 0.4));
  evidence.series.push_back(fixture_series("host.cpu", "%", {8, 11, 14, 14, 14}, 0.7));
}

inline void add_fixture_kernels(Evidence& evidence) {
  const auto add = [&evidence](const char* op, const char* shape, double time, double floor,
                               double intensity, double tflops) {
    evidence.kernels.push_back({.op = op,
                                .kernel = "CUTLASS 128x128x256",
                                .shape = shape,
                                .tokens = 64,
                                .time_us = time,
                                .floor_us = floor,
                                .intensity = intensity,
                                .tflops = tflops,
                                .source = "/home/me/bench.json: rows[0]"});
  };
  add("moe.gate_up", "256 x [2, 512, 6144]", 401, 284, 7.1, 8.03);
  add("moe.down", "256 x [2, 6144, 256]", 260, 142, 7.0, 6.2);
  add("attn.o_proj", "[64, 6144, 2048]", 25.2, 16.1, 61.8, 63.9);
  add("lm_head", "[64, 19360, 6144]", 171, 149, 63, 89);
  evidence.trace = TraceEvidence{
      .source = "/home/me/rank0.trace.json.gz",
      .engine = "vllm",
      .steps = 12,
      .step_ms = 70.9,
      .busy_ms = 66.1,
      .ops = {{"moe.gate_up", 30.4, 75, {"cutlass::gemm_nvfp4<128,128>"}},
              {"all_reduce", 12.3, 156, {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL"}},
              {"moe.down", 19.6, 75, {"cutlass::gemm_nvfp4<128,128>"}},
              {"unmapped", 3.8, 411, {"vectorized_elementwise_kernel", "reshape_and_cache"}}}};
  evidence.roofs =
      Json::object()
          .set("bandwidth_gb_s", Json::object().set("value", 1597.0).set("source", "measured"))
          .set("peaks", Json::object()
                            .set("fp4", Json::object().set("dense_tflops",
                                                           Json::object().set("value", 1850.0)))
                            .set("bf16", Json::object().set("dense_tflops",
                                                            Json::object().set("value", 462.0))));
}

// Half of a step's operations timed on another GPU than the one that served.
inline GpuEvidence fixture_gpu() {
  GpuEvidence gpu{.on = "cuda:0", .source = "/srv/runs/monday/bench.json"};
  gpu.roofs = {.title = "NVIDIA H200", .arch = "sm_90a", .sms = 132};
  const GpuConditions board{.clock_mhz = 1755,
                            .power_w = 480,
                            .temperature_c = 52,
                            .throttled = {"power cap"},
                            .samples = 7};
  gpu.roofs.roofs["read_gb_s"] = {.value = 4100, .path = "bulk copies", .conditions = board};
  gpu.roofs.roofs["fp8_tflops"] = {.reason = "cuBLASLt is not there"};
  gpu.catalog = find_in_catalog("h200");
  gpu.rows = {{.part = "layer", .tokens = 64, .time_us = 190, .conditions = board}};
  gpu.served_elsewhere =
      "The load was served by node7, and the kernels were timed on NVIDIA H200 (cuda:0): they say "
      "what a step would take there, and explain nothing of this load";
  KernelCover cover;
  cover.ops = {{.op = "moe.gate_up + moe.down",
                .count = 75,
                .tokens = 64,
                .floor_us = 95,
                .time_us = 190,
                .kernel = "nibble w4a16"},
               {.op = "attn.core", .count = 78, .floor_us = 10, .reason = "no kernel on node7"}};
  gpu.steps = {{.level = kFixtureHeadline, .sequences = 64, .floor_ms = 7.905, .cover = cover}};
  return gpu;
}

inline Evidence full_evidence() {
  Evidence evidence;
  evidence.setting = {
      .title = "GLM-5-NVFP4 on 8 x RTX PRO 6000",
      .engine = "vllm",
      .engine_version = "0.11.2",
      .model = "/models/GLM-5-NVFP4",
      .machine = "8 x RTX PRO 6000 Blackwell Server, PCIe",
      .gpus = 8,
      .tp = 8,
      .max_running = 64,
      .power_limit_w = 600,
      .tactic = "CUTLASS 128x128x256",
      .best_tactic = "CUTLASS 128x256x128",
      .notes = {"The server's metrics are from http://admin:pw@node7:8000/metrics."}};
  for (std::size_t at = 0; at < kFixtureLevels.size(); ++at) {
    evidence.levels.push_back(fixture_evidence(at));
    evidence.phases.push_back(
        {evidence.levels.back().name,
         {kFixtureStride * static_cast<double>(at), kFixtureStride * static_cast<double>(at + 1)}});
  }
  add_fixture_series(evidence);
  add_fixture_kernels(evidence);
  evidence.gpu = fixture_gpu();
  evidence.sources = Json::array()
                         .push(Json::object()
                                   .set("what", "load sweep, nibble 0.1.0")
                                   .set("from", "/srv/runs/monday/load.json")
                                   .set("when", "2026-02-03T04:05:06Z"))
                         .push(Json::object()
                                   .set("what", "command")
                                   .set("from",
                                        "nibble load --base-url http://node7:8000 --api-key "
                                        "sk-abcdefghijklmnopqrstuvwxyz")
                                   .set("when", nullptr));
  return evidence;
}

inline Diagnosis full_diagnosis() {
  Diagnosis diagnosis;
  diagnosis.evidence = full_evidence();
  diagnosis.headline = kFixtureHeadline;
  for (std::size_t at = 0; at < kFixtureLevels.size(); ++at) {
    LevelDiagnosis level = fixture_level(at);
    Verdict verdict = at < 3 ? fixture_collectives_verdict() : fixture_cap_verdict();
    verdict.level = level.name;
    level.verdicts.push_back(std::move(verdict));
    diagnosis.levels.push_back(std::move(level));
  }
  diagnosis.verdicts = {fixture_cap_verdict(), fixture_collectives_verdict()};
  diagnosis.sentence = diagnosis.verdicts.front().sentence;
  diagnosis.proposals = fixture_proposals();
  diagnosis.findings = {{.id = "plateau.cap",
                         .point = 8,
                         .title = "Plateau at the cap",
                         .value = 64,
                         .unit = "requests",
                         .formula = "rate / step rate",
                         .inputs = {{"rate", 905, "tok/s", "load.json: levels[3]"}},
                         .confidence = Confidence::kLikely,
                         .sentence = "Between 256 and 512 users 64 requests run."}};
  diagnosis.experiments = {{.id = "more_users",
                            .question = "Do more users run when more are sent?",
                            .outcome = "No: 64 run at 256 users and 64 at 512",
                            .about = Class::kSchedulerCap,
                            .confirms = true}};
  return diagnosis;
}

// One level, a rate and names that are hostile; everything else is missing.
inline Diagnosis sparse_diagnosis() {
  const std::string hostile(kHostileText);
  Diagnosis diagnosis;
  diagnosis.sentence = "What holds " + hostile + " back cannot be told from one level.";
  Evidence& evidence = diagnosis.evidence;
  evidence.setting.title = hostile;
  evidence.setting.model = "</title>" + hostile;
  evidence.setting.machine = "\"quoted\" & 'single'";
  evidence.setting.notes = {"</details></main>",
                            "averyveryverylongnamewithoutanyplacetobreakit"
                            "intopartsbecausesomebodywroteitthatway"};
  LevelEvidence level{.name = hostile};
  level[Fact::kOutputRate] = recorded(410, "<img src=x onerror=alert(1)>");
  level[Fact::kInFlight] = recorded(16, hostile);
  level[Fact::kRunning] = missing(hostile + " is not there");
  level.start_s = 2;
  level.end_s = 9;
  evidence.levels.push_back(level);
  Series series{.name = hostile, .unit = "<b>", .points = {}};
  for (int second = 0; second < 12; ++second) series.points.emplace_back(second, 3 + second % 4);
  evidence.series.push_back(std::move(series));
  evidence.trace_reason = hostile;
  evidence.kernels_reason = "no kernels were timed";
  LevelDiagnosis whole{.name = hostile, .measured_ms = 39.02};
  whole.waterfall = {{.id = "unexplained", .title = hostile, .ms = 39.02, .note = hostile},
                     {.id = "queue", .title = "queue", .reason = hostile}};
  Verdict verdict{.cls = Class::kUnexplained, .sentence = diagnosis.sentence};
  verdict.missing = {{.id = "running", .sentence = hostile}};
  verdict.experiment = "run more levels than " + hostile;
  whole.verdicts = {verdict};
  diagnosis.findings = {
      {.id = "hostile", .title = hostile, .verdict = hostile, .sentence = hostile}};
  diagnosis.levels.push_back(whole);
  diagnosis.verdicts = {verdict};
  return diagnosis;
}

}  // namespace nibble::diagnose
