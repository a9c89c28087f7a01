#include "cli/analyze.h"

#include <algorithm>

#include "base/text.h"
#include "cli/analyze_parts.h"
#include "cli/deployment_flags.h"
#include "explain/floor.h"
#include "report/terminal.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kDefaultConcurrency[] = {1, 8, 32, 64, 128, 256};
constexpr std::int64_t kMostConcurrency = 10'000'000;

Result<std::vector<double>> concurrency_list(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const auto given,
                          arguments.integers("--concurrency", 1, kMostConcurrency));
  std::vector<double> list;
  if (given) {
    list.assign(given->begin(), given->end());
  } else {
    list.assign(std::begin(kDefaultConcurrency), std::end(kDefaultConcurrency));
  }
  return list;
}

Result<std::size_t> shown_level(const Arguments& arguments, const std::vector<Step>& levels) {
  NIBBLE_ASSIGN_OR_RETURN(const auto at, arguments.integer("--at", 1));
  if (!at) return levels.size() - 1;
  std::vector<std::string> known;
  for (std::size_t index = 0; index < levels.size(); ++index) {
    if (levels[index].concurrency == static_cast<double>(*at)) return index;
    known.push_back(fmt::format("{}", levels[index].concurrency));
  }
  return usage_error("--at {} is none of the concurrencies analyzed: {}", *at, join(known, ", "));
}

Result<std::vector<ComparedLayout>> compare_layouts(const Arguments& arguments,
                                                    const Analysis& analysis) {
  std::vector<ComparedLayout> compared;
  for (const std::string& text : arguments.all("--compare")) {
    NIBBLE_ASSIGN_OR_RETURN(const ParallelLayout layout, parse_layout(text));
    ComparedLayout other{.layout = layout};
    Deployment deployment = analysis.deployment;
    deployment.layout = layout;
    const Result<Ledger> ledger = Ledger::make(std::move(deployment));
    if (!ledger.ok()) {
      // One layout that cannot be is an answer in a comparison; the others are still worth showing.
      other.refused = ledger.error().message;
    } else {
      other.capacity = ledger->capacity();
      for (const Step& level : analysis.levels) {
        NIBBLE_ASSIGN_OR_RETURN(Step step, ledger->decode(level.concurrency));
        other.levels.push_back(std::move(step));
      }
    }
    compared.push_back(std::move(other));
  }
  return compared;
}

Result<> price(Analysis& analysis, const Arguments& arguments,
               const std::vector<double>& concurrency) {
  NIBBLE_ASSIGN_OR_RETURN(const Ledger ledger, Ledger::make(analysis.deployment));
  analysis.capacity = ledger.capacity();
  for (const double sequences : concurrency) {
    NIBBLE_ASSIGN_OR_RETURN(Step step, ledger.decode(sequences));
    analysis.levels.push_back(std::move(step));
  }
  NIBBLE_ASSIGN_OR_RETURN(const auto chunk, arguments.integer("--prefill", 1, kMostConcurrency));
  if (chunk) {
    NIBBLE_ASSIGN_OR_RETURN(Step prefill, ledger.prefill(static_cast<double>(*chunk), 1, 0));
    analysis.prefill = std::move(prefill);
  }
  return {};
}

Result<Analysis> analyze_deployment(const Arguments& arguments) {
  Analysis analysis;
  NIBBLE_ASSIGN_OR_RETURN(analysis.deployment, deployment_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<double> concurrency, concurrency_list(arguments));
  NIBBLE_RETURN_IF_ERROR(price(analysis, arguments, concurrency));
  return analysis;
}

Result<Analysis> analyze_case(const Arguments& arguments, const std::string& name) {
  for (const std::string& flag : flags_that_a_case_replaces()) {
    if (arguments.has(flag))
      return usage_error("{} cannot stand beside --case: the case names it", flag);
  }
  Analysis analysis;
  NIBBLE_ASSIGN_OR_RETURN(const Case found, load_case(name));
  CaseOptions options;
  NIBBLE_ASSIGN_OR_RETURN(options.peak_is, peak_is_from(arguments));
  options.adjust = [&arguments](Deployment& deployment) {
    return apply_overrides(arguments, deployment);
  };
  NIBBLE_ASSIGN_OR_RETURN(analysis.explained, explain_case(found, options));
  analysis.deployment = analysis.explained->deployment;
  std::vector<double> concurrency;
  if (arguments.has("--concurrency")) {
    NIBBLE_ASSIGN_OR_RETURN(concurrency, concurrency_list(arguments));
  } else {
    for (const LevelAnalysis& level : analysis.explained->levels)
      concurrency.push_back(level.running);
  }
  if (concurrency.empty())
    concurrency.assign(std::begin(kDefaultConcurrency), std::end(kDefaultConcurrency));
  std::sort(concurrency.begin(), concurrency.end());
  concurrency.erase(std::unique(concurrency.begin(), concurrency.end()), concurrency.end());
  NIBBLE_RETURN_IF_ERROR(price(analysis, arguments, concurrency));
  return analysis;
}

Result<int> run_analyze(const Arguments& arguments) {
  const std::optional<std::string> case_name = arguments.text("--case");
  NIBBLE_ASSIGN_OR_RETURN(Analysis analysis, case_name ? analyze_case(arguments, *case_name)
                                                       : analyze_deployment(arguments));
  NIBBLE_ASSIGN_OR_RETURN(analysis.shown, shown_level(arguments, analysis.levels));
  NIBBLE_ASSIGN_OR_RETURN(analysis.compared, compare_layouts(arguments, analysis));
  NIBBLE_ASSIGN_OR_RETURN(
      analysis.findings,
      floor_findings(analysis.deployment, analysis.levels[analysis.shown], analysis.capacity));
  if (const auto kernels = arguments.text("--kernels")) {
    NIBBLE_ASSIGN_OR_RETURN(analysis.kernels, read_bench(*kernels));
  }
  analysis.command = join(arguments.command_line, " ");

  std::string report_path;
  const std::optional<std::string> directory = arguments.text("--report");
  if (directory) {
    NIBBLE_ASSIGN_OR_RETURN(const std::filesystem::path path,
                            write_report(analysis_document(analysis), *directory));
    report_path = path.string();
  }
  if (arguments.has("--json")) {
    fmt::print("{}\n", analysis_json(analysis).dump());
  } else {
    fmt::print("{}", render_terminal(analysis_document(analysis), Style::for_stdout()));
    if (!report_path.empty()) fmt::print("\nReport: {}\n", report_path);
  }
  return 0;
}

}  // namespace

CommandDef analyze_command() {
  std::vector<OptionDef> options = deployment_options();
  options.insert(
      options.end(),
      {{.name = "--concurrency",
        .value = "LIST",
        .kind = ValueKind::kIntegerList,
        .help = "sequences of the whole deployment: 1,8,64 or 1..256 (powers of two)",
        .default_text = "1,8,32,64,128,256"},
       {.name = "--at",
        .value = "N",
        .kind = ValueKind::kInteger,
        .help = "show the operations at this concurrency",
        .default_text = "the largest"},
       {.name = "--prefill",
        .value = "TOKENS",
        .kind = ValueKind::kInteger,
        .help = "also price a prefill chunk of one sequence"},
       {.name = "--compare",
        .value = "LAYOUT",
        .kind = ValueKind::kText,
        .help = "another layout beside it, as tp=4,pp=2 or tp=8,ep=8,dp-attention",
        .repeatable = true},
       {.name = "--case",
        .value = "NAME|FILE",
        .kind = ValueKind::kCase,
        .help =
            "explain measured numbers (nibble.case/1); names its own model, machine and layout"},
       {.name = "--kernels",
        .value = "FILE",
        .kind = ValueKind::kFile,
        .help = "measured kernels beside the floors (what nibble bench --json printed)"},
       {.name = "--report",
        .value = "DIR",
        .kind = ValueKind::kDirectory,
        .help = "write report.html, report.md and report.json there"}});
  return {
      .name = "analyze",
      .summary =
          "what a decode step must cost, operation by operation, and what explains a slower one",
      .description =
          "Computes the floor of a decode step from a model's configuration, a machine, a parallel "
          "layout and a "
          "load: bytes, FLOP, collectives and launches of each operation on the busiest rank, and "
          "the largest of "
          "their times. Needs no hardware.\n\n"
          "With --case it holds measured kernels and load levels against that floor: for each "
          "kernel its two "
          "roofs, for each level a waterfall from the floor to the measured time, and findings "
          "with their formula, "
          "inputs and assumptions.",
      .options = std::move(options),
      .examples = {{"nibble analyze --model glm-5-nvfp4 --machine rtx-pro-6000-server --tp 8",
                    "the floor of GLM-5 in NVFP4 on eight cards"},
                   {"nibble analyze --case glm5_rtxpro6000 --report out",
                    "explain the built-in case, with a report"},
                   {"nibble analyze --model deepseek-r1 --machine h200 --tp 8 --compare "
                    "tp=8,ep=8,dp-attention "
                    "--concurrency 1..1024",
                    "two layouts side by side"}},
      .run = run_analyze};
}

}  // namespace nibble::cli
