// Writes a report that holds everything one can hold, with numbers as a real one has them and names
// as nobody should choose them, for tests/report/test_report.py:
//
//   nibble_report_fixture DIR
#include <cmath>
#include <cstdio>
#include <fmt/core.h>
#include <string>

#include "report/document.h"

namespace nibble {
namespace {

constexpr double kBandwidthTbS = 1.79;
constexpr double kNvfp4Tflops = 2000;
constexpr double kBf16Tflops = 500;

ChartSeries roof(const std::string& name, double peak_tflops, bool dashed) {
  const double ridge = peak_tflops / kBandwidthTbS;
  return {.name = name,
          .points = {{0.3, 0.3 * kBandwidthTbS, "memory, 1.79 TB/s"},
                     {ridge, peak_tflops, "ridge"},
                     {20000, peak_tflops, ""}},
          .mark = ChartSeries::Mark::kLine,
          .dashed = dashed};
}

Chart roofline() {
  ChartSeries operations{.name = "Operations of the step, at their floor",
                         .mark = ChartSeries::Mark::kPoints,
                         .label_points = true};
  const struct {
    const char* name;
    double intensity;
  } kOperations[] = {
      {"attn.q_a_proj", 60.1},  {"attn.q_b_proj", 57.3}, {"attn.kv_a_proj", 49.0},
      {"attn.o_proj", 61.8},    {"indexer.scores", 3.4}, {"attention over 2,048 keys", 30.2},
      {"moe.router", 15.7},     {"moe.gate_up", 58.4},   {"moe.down", 56.9},
      {"shared.gate_up", 59.2}, {"shared.down", 55.0},   {"dense.gate_up", 62.4},
      {"dense.down", 61.1},     {"lm_head", 15.9},       {"norms", 0.7},
      {"moe.combine", 0.52},    {"rope", 0.9},           {"embedding", 0.35},
  };
  for (const auto& operation : kOperations) {
    operations.points.push_back(
        {operation.intensity, operation.intensity * kBandwidthTbS, operation.name});
  }
  const ChartSeries measured{.name = "Measured kernels",
                             .points = {{54.9, 23.4, "nvfp4 16x2048x6144"},
                                        {54.9, 41.0, "nvfp4 16x6144x2048"},
                                        {1170, 860, "nvfp4 large"},
                                        {410, 330, "bf16 large, cuBLASLt"}},
                             .mark = ChartSeries::Mark::kPoints,
                             .label_points = true};
  return {.id = "roofline",
          .title = "Roofline of one GPU",
          .caption =
              "Left of the ridge memory holds an operation back, right of it arithmetic. A "
              "kernel far below the roof loses time that the machine would allow it.",
          .x = {"Arithmetic intensity, FLOP/B", true},
          .y = {"Rate, TFLOP/s", true},
          .series = {measured, operations, roof("NVFP4 roof", kNvfp4Tflops, false),
                     roof("BF16 roof", kBf16Tflops, true)}};
}

Chart waterfall() {
  return {.id = "waterfall",
          .kind = Chart::Kind::kWaterfall,
          .title = "Where a step of 31.9 ms goes",
          .caption = "Each bar starts where the last ended; the last one is the measured step.",
          .y = {"Time, ms"},
          .series = {{.name = "Step at concurrency 64",
                      .points = {{0, 4.913, "expert weights, read once"},
                                 {0, 1.204, "other weights"},
                                 {0, 0.318, "KV cache and indexer keys"},
                                 {0, 0.021, "activations"},
                                 {0, 9.36,
                                  "collectives over PCIe without peer access, "
                                  "156 all-reduces of 786,432 B"},
                                 {0, 2.4, "launches"},
                                 {0, 3.55, "prefill of arriving requests"},
                                 {0, -0.83, "overlap of copies"},
                                 {0, 10.964, "unexplained"},
                                 {0, 31.9, "measured step"}}}}};
}

Chart throughput() {
  ChartSeries floor{.name = "Floor", .mark = ChartSeries::Mark::kLine, .dashed = true};
  ChartSeries measured{.name = "Measured", .label_points = true};
  ChartSeries per_user{.name = "Measured, of one </script> user & \"friends\"",
                       .label_points = true};
  double concurrency = 1;
  for (const double tokens_s : {41.0, 79.0, 151.0, 280.0, 505.0, 880.0, 1420.0, 2005.0, 2120.0}) {
    floor.points.push_back({concurrency, 260 * std::pow(concurrency, 0.72), ""});
    measured.points.push_back({concurrency, tokens_s, fmt::format("{} tok/s", tokens_s)});
    per_user.points.push_back({concurrency, tokens_s / concurrency, ""});
    concurrency *= 2;
  }
  return {.id = "throughput",
          .title = "Output tokens per second over concurrency",
          .caption = "The floor counts weights, KV cache and links; the server adds the rest.",
          .x = {"Concurrent requests", true},
          .y = {"Output rate, tok/s", true},
          .series = {measured, per_user, floor}};
}

Chart bars() {
  return {
      .id = "proposals",
      .kind = Chart::Kind::kBars,
      .title = "What each change would win, at most",
      .caption = "An upper bound per step. <script>alert(1)</script> stays text.",
      .y = {"Time per step, ms"},
      .series = {{.name = "at most",
                  .points = {{0, 9.1, "Custom all-reduce through peer-to-peer copies"},
                             {0, 6.2, "A grouped GEMM that is read-bound at 16 rows per expert"},
                             {0, 2.2, "CUDA graphs"},
                             {0, 0.4,
                              "averyveryverylongnamewithoutanyplacetobreakitinto"
                              "partsbecausesomebodywroteitthatway"},
                             {0, 0.09, "<script>alert(1)</script>"}}},
                 {.name = "likely",
                  .points = {{0, 5.5, "Custom all-reduce through peer-to-peer copies"},
                             {0, 3.9, "A grouped GEMM that is read-bound at 16 rows per expert"},
                             {0, 2.0, "CUDA graphs"},
                             {0, 0.2,
                              "averyveryverylongnamewithoutanyplacetobreakitinto"
                              "partsbecausesomebodywroteitthatway"},
                             {0, 0.04, "<script>alert(1)</script>"}}}}};
}

Chart crowd() {
  ChartSeries points{
      .name = "One point a run", .mark = ChartSeries::Mark::kPoints, .label_points = true};
  for (int run = 0; run < 60; ++run) {  // more labels than any screen has room for
    points.points.push_back({10 + std::sin(run * 1.7) * 6, 40 + std::cos(run * 2.3) * 25,
                             fmt::format("run {} of 60", run + 1)});
  }
  return {.id = "crowd",
          .title = "Sixty runs",
          .caption = "Labels that would touch others are left to the tooltip.",
          .x = {"Inter-token latency, ms"},
          .y = {"Power, W"},
          .series = {points}};
}

Table operations_table() {
  Table table({{"Operation"},
               {"Count", Align::kRight},
               {"Shape on this rank"},
               {"Bytes", Align::kRight},
               {"FLOP", Align::kRight},
               {"Floor", Align::kRight},
               {"Kernel", Align::kRight},
               {"Served", Align::kRight},
               {"Held by"}});
  table.row({{"moe.gate_up", Emphasis::kStrong},
             "75",
             "256 groups x [16, 512, 6144]",
             "453.2 MB",
             "25.8 GFLOP",
             "253.2 us",
             {"401.0 us", Emphasis::kWarning},
             {"no trace", Emphasis::kFaint},
             "memory"});
  table.row({"moe.down",
             "75",
             "256 groups x [16, 6144, 256]",
             "226.6 MB",
             "12.9 GFLOP",
             "126.6 us",
             {"131.0 us", Emphasis::kGood},
             {"no trace", Emphasis::kFaint},
             "memory"});
  table.rule();
  table.row({"all-reduce",
             "156",
             "[64, 6144]",
             "786.4 kB",
             "0",
             "12.1 us",
             {"60.0 us", Emphasis::kBad},
             {"no trace", Emphasis::kFaint},
             "link"});
  return table;
}

std::vector<Finding> findings() {
  return {
      {.id = "intensity.nvfp4.16x2048x6144",
       .point = 1,
       .title = "Arithmetic intensity",
       .value = 54.9,
       .unit = "FLOP/B",
       .verdict = "memory",
       .formula = "2*m*n*k / (m*k*b_a + n*k*b_w + m*n*b_o)",
       .inputs = {{"m", 16, "rows", "case: kernels[1].m"},
                  {"n", 2048, "columns", "case: kernels[1].n"},
                  {"k", 6144, "columns", "case: kernels[1].k"},
                  {"bandwidth", 1792, "GB/s", "catalog: rtx-pro-6000-server"}},
       .assumptions = {"weights are read once from DRAM",
                       "activations are written by the layer "
                       "before as bf16"},
       .sentence = "16x2048x6144 does 54.9 FLOP per byte, 21 x below the ridge of 1,158: memory "
                   "holds it back, and no faster arithmetic would help."},
      {.id = "collectives.share",
       .point = 2,
       .title = "Share of the collectives",
       .value = 0.293,
       .unit = "ratio",
       .formula = "t_collectives / t_step",
       .inputs = {{"t_collectives", 9360, "us", "assumed: 60 us each"},
                  {"t_step", 31900, "us", "Little's law"}},
       .assumptions = {"no collective overlaps with arithmetic"},
       .confidence = Confidence::kLikely,
       .sentence = "All-reduces over PCIe take about 29 % of the step."},
      {.id = "clocks.throttled",
       .title = "Clocks",
       .missing = "the case holds no SM clocks; sample them with nvidia-smi during the run",
       .confidence = Confidence::kPossible,
       .sentence = "Whether the GPUs lower their clocks cannot be told from this case."},
      {.id = "escape",
       .title = "<script>alert(1)</script>",
       .verdict = "</script>",
       .formula = "a < b && c > d",
       .inputs = {{"<b>x</b>", 1, "", "<img src=x onerror=alert(1)>"}},
       .assumptions = {"</details></main>"},
       .sentence = "A model named <script>alert(1)</script> or </script> is still only a name."},
  };
}

Document document() {
  Document document;
  document.title = "GLM-5-NVFP4 on 8 x RTX PRO 6000, tensor parallel 8";
  document.subtitle = "A step takes 31.9 ms where the machine would allow 6.5 ms.";
  document.facts = {{"Model", "GLM-5-NVFP4, 743.9 B parameters, 256 experts, 8 per token"},
                    {"Machine", "8 x RTX PRO 6000 Blackwell Server, 1,792 GB/s, PCIe 5.0"},
                    {"Layout", "TP 8, EP 1, no data parallelism"},
                    {"Load", "64 concurrent requests, 3,600 tokens of context"},
                    {"Name", "<script>alert(1)</script>"}};
  document.sections = {
      {.heading = "The step",
       .paragraphs =
           {"The step is bound by its collectives and by time that nothing here explains. "
            "The weights alone would allow 154 steps a second."},
       .charts = {waterfall()},
       .tables = {{"Operations of one step of one rank", operations_table()}}},
      {.heading = "Kernels against the roofs", .charts = {roofline()}, .findings = findings()},
      {.heading = "Throughput", .charts = {throughput(), crowd()}},
      {.heading = "What to change",
       .paragraphs = {"Best first. Every number is an upper bound."},
       .charts = {bars()},
       .bullets = {"Measure one all-reduce of 786,432 B alone: it settles the largest bar.",
                   "Record a trace of ten steps: it would name the unexplained 11 ms."}},
  };
  document.command = "nibble analyze --case glm5_rtxpro6000 --report nibble-report";
  document.data = Json::object({{"schema", "nibble.ledger/1"}, {"model", "<!-- </script>"}});
  return document;
}

}  // namespace
}  // namespace nibble

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: nibble_report_fixture DIR\n");
    return 2;
  }
  const auto page = nibble::write_report(nibble::document(), argv[1]);
  if (!page.ok()) {
    fmt::print(stderr, "{}\n", page.error().message);
    return 1;
  }
  fmt::print("{}\n", page->string());
  return 0;
}
