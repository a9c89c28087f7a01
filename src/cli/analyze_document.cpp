// The analysis as a document: one description for the terminal and for the report.
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/analyze_parts.h"

namespace nibble::cli {
namespace {

std::string machine_fact(const Deployment& deployment) {
  const MachineSpec& machine = deployment.machine;
  std::string text = fmt::format("{} x {}: {} GB/s ({})", deployment.layout.gpus(), machine.title,
                                 format_number(machine.bandwidth_gb_s.value),
                                 to_string(machine.bandwidth_gb_s.provenance));
  for (const auto& [precision, peak] : machine.peaks) {
    text += fmt::format(", {} {} TFLOPS dense ({})", to_string(precision),
                        format_number(peak.dense_tflops.value),
                        to_string(peak.dense_tflops.provenance));
  }
  return text;
}

std::string model_fact(const ModelSpec& model) {
  const ParameterCount count = count_parameters(model);
  std::string text =
      fmt::format("{}: {} parameters, {} active; {} layers", model.title, format_count(count.total),
                  format_count(count.active), model.layers.size());
  if (model.moe) text += fmt::format(", {} experts, top {}", model.moe->experts, model.moe->top_k);
  return text + fmt::format("; {}", model.quantization.summary());
}

std::string load_fact(const Deployment& deployment) {
  std::string text = fmt::format("{} tokens of context, KV {}", format_number(deployment.context),
                                 to_string(deployment.effective_kv_format()));
  if (deployment.model.moe) text += fmt::format(", routing {}", deployment.routing.source);
  if (deployment.draft_tokens > 0)
    text += fmt::format(", {} draft tokens", deployment.draft_tokens);
  return text;
}

Emphasis regime_emphasis(Regime regime) {
  return regime == Regime::kLink || regime == Regime::kLaunch ? Emphasis::kWarning
                                                              : Emphasis::kNone;
}

std::string bytes_or_dash(double bytes) {
  return bytes > 0 ? format_bytes(bytes) : "-";
}

// Each beside each: the columns stand right of the floor of one call.
std::vector<Cell> kernel_cells_of(const Op& op, const KernelCell& kernel) {
  if (!kernel.time_us) return {"-", "-"};
  return {Cell(format_time_us(*kernel.time_us), Emphasis::kStrong),
          format_number(*kernel.time_us / op.floor_us, 3) + " x"};
}

// The unit that multiplies, in the columns of its activity.
const char* multiplier(const MachineSpec& machine) {
  return machine.is_cpu ? "multiply" : "tensor";
}

// Whose kernels they are, and why some operations have none.
void describe_kernels(Section& section, const Deployment& deployment, const Step& step,
                      const BenchFile& file, const std::vector<KernelCell>& kernels) {
  std::string text =
      fmt::format("Kernels of nibble {}, measured alone on {} ({}).", printable(file.version),
                  printable(file.machine), printable(file.path));
  if (file.machine != deployment.machine.title) {
    text += fmt::format(" The floor is that of {}: another machine.", deployment.machine.title);
  }
  section.paragraphs.push_back(std::move(text));
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (std::size_t index = 0; index < kernels.size(); ++index) {
    if (kernels[index].time_us) continue;
    const std::string& reason = kernels[index].reason;
    auto found = std::find_if(reasons.begin(), reasons.end(),
                              [&reason](const auto& known) { return known.first == reason; });
    if (found == reasons.end()) found = reasons.insert(found, {reason, {}});
    const std::string& name = step.ops[index].name;
    if (std::find(found->second.begin(), found->second.end(), name) == found->second.end()) {
      found->second.push_back(name);
    }
  }
  for (const auto& [reason, names] : reasons) {
    section.bullets.push_back(fmt::format("no kernel for {}: {}", join(names, ", "), reason));
  }
}

// `kernels`: one cell an operation, or empty. `unit`: what multiplies.
Table operations_table(const Step& step, const std::vector<KernelCell>& kernels, const char* unit) {
  constexpr std::ptrdiff_t kKernelAt = 10;  // right of "floor each"
  std::vector<Column> columns = {{"op"},
                                 {"count", Align::kRight, kernels.empty() ? 0 : 2},
                                 {"shape", Align::kLeft, kernels.empty() ? 0 : 1},
                                 {"format", Align::kLeft, 5},
                                 {"weights", Align::kRight, 3},
                                 {"KV", Align::kRight, 4},
                                 {"activations", Align::kRight, 7},
                                 {"link", Align::kRight, 6},
                                 {"GFLOP", Align::kRight, 8},
                                 {"floor each", Align::kRight, kernels.empty() ? 2 : 0},
                                 {"total", Align::kRight, kernels.empty() ? 0 : 2},
                                 {"share", Align::kRight, kernels.empty() ? 0 : 2},
                                 {"bound by", Align::kLeft, kernels.empty() ? 0 : 2},
                                 {unit, Align::kRight, 9},
                                 {"DRAM", Align::kRight, 10}};
  const bool tiled = std::any_of(step.ops.begin(), step.ops.end(),
                                 [](const Op& op) { return op.coverage.has_value(); });
  if (tiled) columns.push_back({"coverage", Align::kRight, 1});
  if (!kernels.empty()) {
    columns.insert(columns.begin() + kKernelAt,
                   {{"kernel each", Align::kRight}, {"kernel/floor", Align::kRight}});
  }
  Table table(std::move(columns));
  for (std::size_t index = 0; index < step.ops.size(); ++index) {
    const Op& op = step.ops[index];
    const double total_us = op.count * op.floor_us;
    std::vector<Cell> cells = {
        op.name,
        format_number(op.count),
        op.shape.text,
        op.format,
        bytes_or_dash(op.bytes.weight_bytes),
        bytes_or_dash(op.bytes.kv_bytes),
        bytes_or_dash(op.bytes.activation_bytes),
        bytes_or_dash(op.bytes.link_bytes),
        op.flop > 0 ? format_number(op.flop / kGiga) : "-",
        format_time_us(op.floor_us),
        format_time_us(total_us),
        Cell(format_share(total_us / step.step_us),
             total_us > 0.2 * step.step_us ? Emphasis::kStrong : Emphasis::kNone),
        Cell(std::string(to_string(op.regime)), regime_emphasis(op.regime)),
        format_share(op.tensor_activity),
        format_share(op.dram_activity)};
    if (tiled) cells.push_back(op.coverage ? format_share(*op.coverage) : "-");
    if (!kernels.empty()) {
      const std::vector<Cell> kernel = kernel_cells_of(op, kernels[index]);
      cells.insert(cells.begin() + kKernelAt, kernel.begin(), kernel.end());
    }
    table.row(std::move(cells));
  }
  return table;
}

Table sweep_table(const Analysis& analysis) {
  const bool moe = analysis.deployment.model.moe.has_value();
  const double fit = analysis.capacity.sequences(analysis.deployment.context);
  Table table({{"concurrency", Align::kRight},
               {"experts", Align::kRight, 5},
               {"rows/expert", Align::kRight, 6},
               {"weights read", Align::kRight, 3},
               {"KV read", Align::kRight, 4},
               {"memory", Align::kRight},
               {"link", Align::kRight},
               {"launches", Align::kRight, 2},
               {"step", Align::kRight},
               {"tok/s", Align::kRight},
               {"tok/s/seq", Align::kRight},
               {"bound by"},
               {multiplier(analysis.deployment.machine), Align::kRight, 7},
               {"fits"}});
  for (const Step& step : analysis.levels) {
    const bool fits = fit >= step.concurrency;
    table.row({format_number(step.concurrency), moe ? format_compact(step.routing->distinct) : "-",
               moe ? format_compact(step.routing->rows_mean) : "-", format_bytes(step.weight_bytes),
               format_bytes(step.kv_bytes), format_time_us(step.memory_us),
               format_time_us(step.link_us), format_time_us(step.launch_us),
               Cell(format_time_us(step.step_us), Emphasis::kStrong),
               format_number(step.tokens_per_s), format_number(step.tokens_per_s_per_sequence),
               Cell(std::string(to_string(step.regime)), regime_emphasis(step.regime)),
               format_share(step.tensor_activity),
               Cell(fits ? "yes" : "no", fits ? Emphasis::kNone : Emphasis::kBad)});
  }
  return table;
}

// The floor and what it adds up from.
std::string step_sentence(const Step& step) {
  std::string text = fmt::format(
      "Floor {} = memory-bound operations {} + compute-bound {} + collectives {} + launches {}",
      format_time_us(step.step_us), format_time_us(step.bound_memory_us),
      format_time_us(step.bound_compute_us), format_time_us(step.bound_link_us),
      format_time_us(step.bound_launch_us));
  if (step.pipeline_bubble_us > 0) {
    text += fmt::format(" + stages that wait {}", format_time_us(step.pipeline_bubble_us));
  }
  return text + fmt::format(": {} tok/s. Weights and KV over the bandwidth alone: {}.",
                            format_number(step.tokens_per_s),
                            format_time_us(step.weights_and_kv_us));
}

Section operations_section(const Analysis& analysis) {
  const Step& step = analysis.levels[analysis.shown];
  Section section{.heading = fmt::format("One decode step at {} sequences, on the busiest {}",
                                         format_number(step.concurrency),
                                         analysis.deployment.machine.is_cpu ? "rank" : "GPU")};
  section.paragraphs.push_back(step_sentence(step));
  Chart bars{.id = "operations",
             .kind = Chart::Kind::kBars,
             .title = "Where the floor of the step goes",
             .caption = "Floor of each operation times its count, in milliseconds.",
             .x = {.title = "operation"},
             .y = {.title = "time (ms)"}};
  ChartSeries series{.name = "floor"};
  for (const Op& op : step.ops)
    series.points.push_back({.y = op.count * op.floor_us / kKilo, .label = op.name});
  bars.series.push_back(std::move(series));
  section.charts.push_back(std::move(bars));
  // A case shows it beside its measured kernels.
  if (!analysis.explained || analysis.explained->kernels.empty())
    section.charts.push_back(roofline_chart(analysis));
  std::vector<KernelCell> kernels;
  if (analysis.kernels) {
    kernels = kernel_cells(analysis.deployment, step, *analysis.kernels);
    describe_kernels(section, analysis.deployment, step, *analysis.kernels, kernels);
  }
  section.tables.emplace_back(
      "", operations_table(step, kernels, multiplier(analysis.deployment.machine)));
  return section;
}

Section sweep_section(const Analysis& analysis) {
  Section section{.heading = "Over concurrency"};
  if (!analysis.explained) section.charts.push_back(throughput_chart(analysis));
  section.tables.emplace_back("", sweep_table(analysis));
  return section;
}

Section prefill_section(const Analysis& analysis) {
  const Step& step = *analysis.prefill;
  Section section{.heading = fmt::format("A prefill chunk of {} tokens", format_number(step.rows))};
  section.paragraphs.push_back(
      fmt::format("Floor {}: {} tok/s, {}-bound.", format_time_us(step.step_us),
                  format_number(step.tokens_per_s), to_string(step.regime)));
  section.tables.emplace_back("",
                              operations_table(step, {}, multiplier(analysis.deployment.machine)));
  return section;
}

Section compare_section(const Analysis& analysis) {
  Section section{.heading = "Layouts side by side"};
  Table table({{"layout"},
               {"GPUs", Align::kRight},
               {"concurrency", Align::kRight},
               {"step", Align::kRight},
               {"tok/s", Align::kRight},
               {"tok/s/GPU", Align::kRight, 3},
               {"weights read", Align::kRight, 2},
               {"KV read", Align::kRight, 2},
               {"link", Align::kRight, 1},
               {"bound by"},
               {"fits"}});
  section.paragraphs.push_back(
      "Bytes are read per GPU and step; \"fits\": weights and KV cache within the memory of a "
      "GPU.");
  auto rows = [&](const ParallelLayout& layout, const std::vector<Step>& levels,
                  const Capacity& capacity) {
    const double fit = capacity.sequences(analysis.deployment.context);
    for (const Step& step : levels) {
      const bool fits = fit >= step.concurrency;
      table.row({layout.describe(), format_number(static_cast<double>(layout.gpus())),
                 format_number(step.concurrency), format_time_us(step.step_us),
                 format_number(step.tokens_per_s),
                 format_number(step.tokens_per_s / static_cast<double>(layout.gpus())),
                 format_bytes(step.weight_bytes), format_bytes(step.kv_bytes),
                 format_time_us(step.link_us), std::string(to_string(step.regime)),
                 Cell(fits ? "yes" : "no", fits ? Emphasis::kNone : Emphasis::kBad)});
    }
    if (!capacity.limit.empty()) {
      section.bullets.push_back(fmt::format("{}: {}", layout.describe(), capacity.limit));
    }
  };
  rows(analysis.deployment.layout, analysis.levels, analysis.capacity);
  for (const ComparedLayout& other : analysis.compared) {
    if (!other.refused.empty()) {
      section.bullets.push_back(fmt::format("{}: {}", other.layout.describe(), other.refused));
      continue;
    }
    table.rule();
    rows(other.layout, other.levels, other.capacity);
  }
  section.tables.emplace_back("", std::move(table));
  return section;
}

}  // namespace

Chart roofline_chart(const Analysis& analysis) {
  const Step& step = analysis.levels[analysis.shown];
  const MachineSpec& machine = analysis.deployment.machine;
  const double bandwidth =
      machine.bandwidth_gb_s.value * analysis.deployment.bandwidth_efficiency * kGiga;
  Chart chart{.id = "roofline",
              .title = "Roofline",
              .x = {.title = "arithmetic intensity (FLOP/B)", .logarithmic = true},
              .y = {.title = "TFLOPS", .logarithmic = true}};
  chart.caption =
      "Operations of the step at their floor (on the roof by definition, less the launch gap) and "
      "measured "
      "kernels below it. Left of a ridge the bandwidth is the limit, right of it ";
  chart.caption += machine.is_cpu ? "the multiply units." : "the tensor cores.";
  constexpr double kLeft = 0.1;
  constexpr double kRight = 1e5;
  for (const auto& [precision, peak] : machine.peaks) {
    const double flops = peak.dense_tflops.value * kTera;
    const double ridge = flops / bandwidth;
    ChartSeries roof{.name = fmt::format("{} roof", to_string(precision)),
                     .mark = ChartSeries::Mark::kLine};
    roof.points = {{kLeft, kLeft * bandwidth / kTera, ""},
                   {ridge, flops / kTera, fmt::format("ridge {} FLOP/B", format_number(ridge))},
                   {kRight, flops / kTera, ""}};
    chart.series.push_back(std::move(roof));
  }
  if (analysis.explained) {
    ChartSeries measured{
        .name = "measured kernels", .mark = ChartSeries::Mark::kPoints, .label_points = true};
    for (const KernelAnalysis& kernel : analysis.explained->kernels) {
      if (kernel.bytes <= 0 || kernel.time_us <= 0)
        continue;  // no shape stated: no place on the x axis
      measured.points.push_back(
          {kernel.intensity, kernel.flop / kernel.time_us * 1e-6, kernel.label});
    }
    if (!measured.points.empty()) chart.series.push_back(std::move(measured));
  }
  ChartSeries operations{.name = "operations at their floor",
                         .mark = ChartSeries::Mark::kPoints,
                         .label_points = true};
  for (const Op& op : step.ops) {
    if (op.flop <= 0 || op.bytes.dram() <= 0) continue;
    operations.points.push_back({op.flop / op.bytes.dram(), op.flop / op.floor_us * 1e-6, op.name});
  }
  chart.series.push_back(std::move(operations));
  return chart;
}

Chart throughput_chart(const Analysis& analysis) {
  Chart chart{.id = "throughput",
              .title = "Tokens per second over concurrency",
              .x = {.title = "sequences", .logarithmic = true},
              .y = {.title = "tok/s", .logarithmic = true}};
  chart.caption = "The floor's throughput is the most that the machine's roofs allow.";
  ChartSeries floor{.name = fmt::format("floor, {}", analysis.deployment.layout.describe())};
  for (const Step& step : analysis.levels)
    floor.points.push_back({step.concurrency, step.tokens_per_s, ""});
  chart.series.push_back(std::move(floor));
  for (const ComparedLayout& other : analysis.compared) {
    if (other.levels.empty()) continue;
    ChartSeries series{.name = fmt::format("floor, {}", other.layout.describe()), .dashed = true};
    for (const Step& step : other.levels)
      series.points.push_back({step.concurrency, step.tokens_per_s, ""});
    chart.series.push_back(std::move(series));
  }
  if (!analysis.explained) return chart;
  ChartSeries measured{.name = "measured"};
  for (const LevelAnalysis& level : analysis.explained->levels) {
    if (level.measured.output_tok_s)
      measured.points.push_back({level.measured.concurrency, *level.measured.output_tok_s, ""});
  }
  if (!measured.points.empty()) chart.series.push_back(std::move(measured));
  return chart;
}

Document analysis_document(const Analysis& analysis) {
  const Deployment& deployment = analysis.deployment;
  Document document;
  document.title =
      fmt::format("{} on {} x {}, {}", deployment.model.title, deployment.layout.gpus(),
                  deployment.machine.title, deployment.layout.describe());
  if (analysis.explained) {
    document.subtitle = fmt::format("The case {}: {}.", analysis.explained->source.name,
                                    analysis.explained->source.source);
  }
  document.facts = {{"Model", model_fact(deployment.model)},
                    {"Machine", machine_fact(deployment)},
                    {"Layout", deployment.layout.describe()},
                    {"Load", load_fact(deployment)}};
  for (const std::string& warning : deployment.model.warnings)
    document.facts.emplace_back("Note", warning);
  if (deployment.machine.is_cpu) {
    for (const std::string& note : deployment.machine.notes) {
      document.facts.emplace_back("Note", note);
    }
  }
  for (Section& section : case_sections(analysis)) document.sections.push_back(std::move(section));
  document.sections.push_back(operations_section(analysis));
  document.sections.push_back(sweep_section(analysis));
  if (analysis.prefill) document.sections.push_back(prefill_section(analysis));
  if (!analysis.compared.empty()) document.sections.push_back(compare_section(analysis));
  document.sections.push_back({.heading = "What the floor says", .findings = analysis.findings});
  document.sections.push_back(
      {.heading = "What the floor assumes", .bullets = assumptions(deployment)});
  document.command = analysis.command;
  document.data = analysis_json(analysis);
  return document;
}

}  // namespace nibble::cli
