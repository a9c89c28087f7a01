// Each number of the built-in case is changed by a tenth, alone: exactly the findings that the
// table below names change, and each of them names the number among its inputs. The table is worked
// out by hand from what each finding means.
#include <gtest/gtest.h>
#include <set>

#include "base/text.h"
#include "explain/case_edit.h"
#include "explain/explain.h"

namespace nibble {
namespace {

constexpr double kSame = 1e-12;  // relative: what a changed order of summation may do

using Patterns = std::vector<std::string>;

// Patterns that several rows share.
Patterns operator+(Patterns a, const Patterns& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
const Patterns kFloors = {"step.*.floor", "step.*.unexplained"};
// Upper bounds that hold the decode step's unexplained time: median ITL less its floor.
const Patterns kLoss = {"proposal.all_reduce",
                        "proposal.cuda_graphs",
                        "proposal.grouped_gemm",
                        "proposal.dp_attention",
                        "proposal.continuous_decode_steps",
                        "proposal.expert_parallelism"};
const Patterns kFit = {"kv.fit.*", "proposal.max_running_requests"};
const Patterns kPredicted = {"layouts.predicted.*", "layouts.floor.*", "layouts.verdict.*"};
const Patterns kParameters = {"parameters", "claim.parameters"};

struct Row {
  std::string path;
  double value;
  Patterns changes;
};

// A kernel's time enters these.
Patterns timing_of(const std::string& slug) {
  return {"kernel.time." + slug, "kernel.over_memory." + slug, "kernel.over_compute." + slug,
          "kernel.regime." + slug, "kernel.share_of_peak." + slug};
}
// Its shape is part of the id of all its findings.
Patterns shape_of(const std::string& slug) {
  return {"*." + slug};
}
Patterns level(const std::string& slug) {
  return {"routing.*." + slug, "step." + slug + ".*", "little." + slug + ".*", "tile.win." + slug};
}

std::vector<Row> model_rows() {
  return {
      // 282 experts do not spread over eight ranks: EP8 falls away. The router grows.
      {"model.experts", 282,
       kFloors + kLoss + kFit + kPredicted + kParameters +
           Patterns{"routing.*", "step.1024.expert_weights", "step.1024.other_weights",
                    "step.1024.activations", "step.1024.prefill", "kv.tokens"}},
      // At 1,024 tokens every expert has a token already, with 8 as with 9 each.
      {"model.experts_per_token", 9,
       kFloors + kLoss + kPredicted +
           Patterns{"routing.rows.*", "routing.busiest.*", "routing.rank.*", "routing.distinct.16",
                    "routing.distinct.32", "routing.distinct.64", "routing.distinct.256",
                    "routing.distinct.512", "step.1024.activations", "step.1024.prefill"}},
      {"model.hidden", 6758,
       kFloors + kLoss + kFit + kPredicted + kParameters +
           Patterns{"step.1024.expert_weights", "step.1024.other_weights", "step.1024.activations",
                    "step.1024.compute", "step.1024.collectives", "step.1024.prefill",
                    "collectives.*", "kv.tokens"}},
      // A tenth more, rounded to a multiple of the eight GPUs that share an expert.
      {"model.moe_intermediate", 2248,
       kFloors + kLoss + kFit + kPredicted + kParameters +
           Patterns{"shapes.*", "step.1024.expert_weights", "step.1024.activations",
                    "step.1024.prefill", "kv.tokens"}},
      {"model.layers", 86,
       kFloors + kLoss + kFit + kPredicted + kParameters +
           Patterns{"step.1024.expert_weights", "step.1024.other_weights", "step.1024.kv",
                    "step.1024.activations", "step.1024.compute", "step.1024.collectives",
                    "step.1024.launches", "step.1024.prefill", "collectives.*", "kv.per_token",
                    "kv.tokens"}},
  };
}

std::vector<Row> machine_rows() {
  return {
      {"machine.sms", 207, {"tiles.coverage.*"}},
      // A tenth less: a tenth more would leave the range [low, high].
      {"machine.fp4_tflops_quoted[0]", 3330, {"peak.ratio", "peak.range"}},
      {"machine.fp4_tflops_quoted[1]", 4400, {"peak.range"}},
      // Memory floors stay; of the regimes only those at M = 512 rest on the compute floor. The
      // bf16 kernel lies above its ridge either way: its ceiling stays 100 %. At 256 sequences no
      // operation of the decode step is compute-bound, but full chunks of prompts are.
      {"machine.fp4_tflops_dense_assumed", 2035,
       kLoss + Patterns{"peak.used",
                        "peak.ratio",
                        "ridge.*",
                        "intensity.below_ridge.*",
                        "kernel.compute_floor.*",
                        "kernel.over_compute.*",
                        "kernel.ceiling.nvfp4.*",
                        "kernel.share_of_peak.*",
                        "kernel.regime.*.512x2048x6144",
                        "formats.excess.*",
                        "tiles.coverage.*",
                        "step.256.unexplained",
                        "step.512.floor",
                        "step.512.unexplained",
                        "step.1024.floor",
                        "step.1024.unexplained",
                        "step.2048.floor",
                        "step.2048.unexplained",
                        "step.1024.compute",
                        "step.1024.prefill",
                        "layouts.floor.*",
                        "disagreement.machine.fp4_tflops_dense_assumed"}},
      // Bandwidth cancels in the ratio of two layouts' traffic, and is not the larger floor at M =
      // 512.
      {"machine.bandwidth_gb_s", 1756.7,
       kFloors + kLoss +
           Patterns{"ridge.*", "intensity.below_ridge.*", "kernel.memory_floor.*",
                    "kernel.over_memory.*", "kernel.ceiling.nvfp4.*",
                    "kernel.regime.nvfp4.16x2048x6144", "kernel.regime.nvfp4.64x2048x6144",
                    "step.1024.expert_weights", "step.1024.other_weights", "step.1024.kv",
                    "step.1024.activations", "step.1024.compute", "step.1024.prefill",
                    "layouts.floor.*"}},
      // 108.9 KiB is more than the catalog's 99: the report no longer holds it.
      {"machine.shared_memory_per_block_kb_reported[0]", 108.9, {"tile.limit"}},
      {"machine.shared_memory_per_block_kb_reported[1]", 110, {}},
      {"machine.power_limit_w", 660, {"power.share.1024"}},
      // 1,126 of 2,048 run: no longer the same number as at 1,024.
      {"server.max_running_requests",
       1126,
       {"routing.rows.2048", "routing.busiest.2048", "routing.rank.2048", "step.2048.*", "plateau",
        "proposal.max_running_requests"}},
  };
}

std::vector<Row> kernel_rows() {
  std::vector<Row> rows = {
      {"kernels[0].tflops", 1430, {"kernel.share_of_peak.nvfp4.large"}},
      {"kernels[1].tflops", 0.88, timing_of("nvfp4.16x2048x6144")},
      {"kernels[2].tflops", 60.5, timing_of("nvfp4.64x2048x6144")},
      {"kernels[3].tflops", 480.7,
       timing_of("nvfp4.512x2048x6144") +
           Patterns{"formats.measured.*", "formats.excess.nvfp4.512x2048x6144"}},
      {"kernels[4].tflops", 247.5,
       timing_of("bf16.512x2048x6144") +
           Patterns{"formats.measured.*", "formats.excess.bf16.512x2048x6144"}}};
  const std::string slugs[] = {"nvfp4.16x2048x6144", "nvfp4.64x2048x6144", "nvfp4.512x2048x6144",
                               "bf16.512x2048x6144"};
  const double rows_of[] = {18, 70, 563, 563};
  for (std::size_t index = 0; index < 4; ++index) {
    // Once the shapes differ, no shape was timed in two formats.
    const Patterns changes =
        shape_of(slugs[index]) + (index >= 2 ? Patterns{"formats.*"} : Patterns{});
    rows.push_back({fmt::format("kernels[{}].m", index + 1), rows_of[index], changes});
    rows.push_back({fmt::format("kernels[{}].n", index + 1), 2253, changes});
    rows.push_back({fmt::format("kernels[{}].k", index + 1), 6758, changes});
  }
  return rows;
}

std::vector<Row> load_rows() {
  const Patterns lengths =
      kFloors + kLoss + kFit + kPredicted +
      Patterns{"step.1024.kv", "step.1024.activations", "step.1024.prefill", "layouts.agreement.*"};
  std::vector<Row> rows = {
      {"load.input_len", 141, lengths},
      {"load.output_len", 141, lengths},
      {"load.levels[0].concurrency", 282, level("256")},
      {"load.levels[1].concurrency", 563, level("512") + Patterns{"layouts.agreement.*"}},
      // 1,024 still run: the step, the collectives and the proposals stay.
      {"load.levels[2].concurrency", 1126,
       level("1024") + Patterns{"power.*.1024", "utilization.1024", "clock.1024", "plateau"}},
      // 1,413 sequences fit, of 2,253 as of 2,048.
      {"load.levels[3].concurrency", 2253, level("2048") + Patterns{"plateau", "tuning.2048"}},
      {"load.levels[0].output_tok_s",
       774.4,
       {"step.256.measured", "step.256.unexplained", "little.256.step"}},
      {"load.levels[1].output_tok_s",
       1216.6,
       {"step.512.measured", "step.512.unexplained", "little.512.step", "layouts.agreement.*"}},
      {"load.levels[2].output_tok_s",
       1761.1,
       {"step.1024.measured", "step.1024.unexplained", "little.1024.step", "little.1024.ratio",
        "plateau", "proposal.prefill_schedule", "proposal.max_running_requests"}},
      {"load.levels[3].output_tok_s",
       1804,
       {"step.2048.measured", "step.2048.unexplained", "little.2048.step", "plateau",
        "tuning.2048"}},
      {"load.levels[2].itl_ms.p50", 290.4,
       kLoss +
           Patterns{"little.1024.implied_rate", "little.1024.ratio", "proposal.prefill_schedule"}},
      // The tail stands in sentences only.
      {"load.levels[2].itl_ms.p95", 345.4, {}},
      {"load.levels[2].itl_ms.p99", 3405.6, {}},
      {"load.levels[2].itl_ms.max", 12554.3, {}},
      {"load.after_tuning[0].concurrency", 2253, {"tuning.2048"}},
      {"load.after_tuning[0].output_tok_s", 2304.5, {"tuning.2048"}},
  };
  for (int gpu = 0; gpu < 8; ++gpu) {
    rows.push_back({fmt::format("load.levels[2].gpus.power_w[{}]", gpu),
                    260,
                    {"power.share.1024", "power.position.1024"}});
    // A tenth less: there is no 110 %.
    rows.push_back(
        {fmt::format("load.levels[2].gpus.utilization_pct[{}]", gpu), 90, {"utilization.1024"}});
    rows.push_back({fmt::format("load.levels[2].gpus.sm_mhz[{}]", gpu), 2648, {"clock.1024"}});
  }
  return rows;
}

std::vector<Row> other_rows() {
  const Patterns second = {"layouts.*.tp4pp2.512"};  // the layout is part of the id
  return {
      // The next layouts that the model can have: 64 heads do not divide by 9.
      {"layouts_compared[0].tp", 16, kPredicted + Patterns{"layouts.agreement.*"}},
      {"layouts_compared[0].pp", 2, kPredicted + Patterns{"layouts.agreement.*"}},
      {"layouts_compared[0].concurrency", 563,
       kPredicted + Patterns{"layouts.measured.*", "layouts.agreement.*"}},
      {"layouts_compared[0].total_tok_s",
       3080,
       {"layouts.measured.*", "layouts.verdict.*", "layouts.agreement.*"}},
      {"layouts_compared[1].tp", 8, second},
      {"layouts_compared[1].pp", 3, second},
      {"layouts_compared[1].concurrency", 563, second},
      {"layouts_compared[1].total_tok_s", 1449.8, {"layouts.measured.*", "layouts.verdict.*"}},
      {"claims[0].value", 445.5e9, {"claim.parameters"}},
  };
}

// A count over all other findings, with a test of its own; it may follow any change.
bool is_counted(const Finding& finding) {
  return finding.id == "peak.dependents";
}

bool same_number(const std::optional<double>& a, const std::optional<double>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || std::abs(*a - *b) <= kSame * std::max(std::abs(*a), std::abs(*b));
}

bool changed(const Finding& before, const Finding* after) {
  return after == nullptr || !same_number(before.value, after->value) ||
         before.verdict != after->verdict;
}

// The path without the index into a list of plain numbers, which findings name as a whole.
std::string as_named(const std::string& path) {
  return path.ends_with(']') ? path.substr(0, path.rfind('[')) : path;
}

bool names(const Finding& finding, const std::string& path) {
  for (const FindingInput& input : finding.inputs) {
    if (input.source.find("case: " + as_named(path)) != std::string::npos) return true;
  }
  return false;
}

void check(const Row& row) {
  SCOPED_TRACE(row.path);
  Json json = case_document("glm5_rtxpro6000");
  const double was = at(json, row.path).as_number();
  EXPECT_NE(was, row.value);
  at(json, row.path) = std::floor(row.value) == row.value
                           ? Json(static_cast<std::int64_t>(row.value))
                           : Json(row.value);
  const CaseAnalysis after = explain_document(json);
  std::set<std::string> found, expected;
  std::set<std::string> unused(row.changes.begin(), row.changes.end());
  for (const Finding& before : unchanged().findings) {
    if (is_counted(before)) continue;
    for (const std::string& pattern : row.changes) {
      if (!glob_match(pattern, before.id)) continue;
      expected.insert(before.id);
      unused.erase(pattern);
    }
    const Finding* now = find(after, before.id);
    if (changed(before, now)) {
      found.insert(before.id);
      EXPECT_TRUE(names(before, row.path)) << before.id << " changed but does not name the input";
    }
    // A finding that does not name the number says the same as before, to the letter.
    if (!names(before, row.path) && now != nullptr) {
      EXPECT_EQ(before.sentence, now->sentence) << before.id;
    }
  }
  EXPECT_TRUE(unused.empty()) << "pattern without a finding: " << *unused.begin();
  for (const std::string& id : found)
    EXPECT_TRUE(expected.contains(id)) << id << " changed unexpectedly";
  for (const std::string& id : expected) EXPECT_TRUE(found.contains(id)) << id << " did not change";
}

TEST(DependencyTest, ModelNumbers) {
  for (const Row& row : model_rows()) check(row);
}
TEST(DependencyTest, MachineAndServerNumbers) {
  for (const Row& row : machine_rows()) check(row);
}
TEST(DependencyTest, KernelNumbers) {
  for (const Row& row : kernel_rows()) check(row);
}
TEST(DependencyTest, LoadNumbers) {
  for (const Row& row : load_rows()) check(row);
}
TEST(DependencyTest, LayoutsAndClaims) {
  for (const Row& row : other_rows()) check(row);
}

// Every number of the case has a row above, but for those that cannot change alone: 9 GPUs are not
// TP8, TP9 is not 8 GPUs, and the per-GPU lists have eight numbers.
TEST(DependencyTest, CoversEveryNumber) {
  std::set<std::string> paths;
  collect_numbers(case_document("glm5_rtxpro6000"), "", paths);
  for (const char* alone : {"machine.gpus", "server.layout.tp", "server.layout.pp"}) {
    EXPECT_EQ(paths.erase(alone), 1U) << alone;
  }
  for (const std::vector<Row>& rows :
       {model_rows(), machine_rows(), kernel_rows(), load_rows(), other_rows()}) {
    for (const Row& row : rows) EXPECT_EQ(paths.erase(row.path), 1U) << row.path;
  }
  EXPECT_TRUE(paths.empty()) << "no row for " << *paths.begin();
}

// The layout as a whole: TP4 x PP2 instead of TP8.
TEST(DependencyTest, Layout) {
  Json json = case_document("glm5_rtxpro6000");
  at(json, "server.layout.tp") = Json(4);
  at(json, "server.layout.pp") = Json(2);
  const CaseAnalysis after = explain_document(json);
  for (const char* id :
       {"shapes.gate_up", "shapes.down", "routing.rows.1024", "step.1024.expert_weights",
        "step.1024.collectives", "step.1024.floor", "step.1024.unexplained", "kv.per_token",
        "kv.fit.mean", "layouts.agreement.tp8pp1.512", "layouts.measured.tp4pp2.512"}) {
    EXPECT_TRUE(changed(*find(unchanged(), id), find(after, id))) << id;
  }
  for (const Finding& before : unchanged().findings) {
    const bool by_layout = names(before, "server.layout.tp") || before.id.starts_with("layouts.") ||
                           before.id.starts_with("routing.") || is_counted(before);
    if (!by_layout) {
      EXPECT_FALSE(changed(before, find(after, before.id))) << before.id;
    }
  }
  // 2048 / 4 GPUs: [m, 1024, 6144].
  EXPECT_EQ(value_of(after, "shapes.gate_up"), 1024);
}

// The count over the findings follows the findings themselves.
TEST(DependencyTest, PeakDependentsCountsWhatDiffers) {
  const CaseAnalysis dense =
      explain_document(case_document("glm5_rtxpro6000"), {.peak_is = PeakIs::kDense});
  int differing = 0;
  for (const Finding& before : unchanged().findings) {
    if (before.id.starts_with("peak.")) continue;
    const Finding* now = find(dense, before.id);
    if (now == nullptr || before.value != now->value || before.verdict != now->verdict) ++differing;
  }
  EXPECT_GT(differing, 0);
  EXPECT_EQ(value_of(unchanged(), "peak.dependents"), differing);
}

}  // namespace
}  // namespace nibble
