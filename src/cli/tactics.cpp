#include "cli/tactics.h"

#include <algorithm>

#include "base/progress.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "cli/tactics_log.h"
#include "cli/tactics_products.h"
#include "cli/tactics_report.h"
#include "machine/spec.h"

namespace nibble::cli {
namespace {

Result<Chip> tactics_chip(const Arguments& arguments) {
  const std::string arch = arguments.text("--arch").value_or("");
  const std::optional<std::string> name = arguments.text("--machine");
  if (!name && arch.empty()) {
    return usage_error(
        "--arch and --machine are missing; name one, as --arch sm_120a or --machine "
        "rtx-pro-6000-server");
  }
  if (!name) return chip_of(arch);
  NIBBLE_ASSIGN_OR_RETURN(const MachineSpec machine, load_machine(*name));
  return chip_of(machine, arch);
}

std::vector<TacticFamily> tactics_families(const Arguments& arguments) {
  const std::string name = arguments.text("--family").value_or("all");
  if (name == "w4a4") return {TacticFamily::kW4A4};
  if (name == "w4a16") return {TacticFamily::kW4A16};
  return {TacticFamily::kW4A4, TacticFamily::kW4A16};
}

Result<> explain(const Arguments& arguments, TacticsReport& report) {
  const std::optional<std::string> text = arguments.text("--explain");
  if (!text) return {};
  const Result<TacticTile> tile = parse_tactic_tile(*text);
  if (!tile.ok()) return usage_error("--explain: {}", tile.error().message);
  report.tile = *tile;
  if (text->ends_with('B')) {
    report.notes.push_back(
        fmt::format("{} has K in bytes, as CUTLASS's names do: {} with two FP4 values a byte",
                    printable(*text), to_string(*tile)));
  }
  for (const TacticFamily family : report.families) {
    for (TileBudget& budget : explain_tile(report.products.front(), *tile, family, report.chip)) {
      report.budgets.push_back(std::move(budget));
    }
  }
  if (report.budgets.empty()) {
    return usage_error(
        "--explain {}: no kernel has such a tile: w4a4 takes M in steps of 16, N of 8 and K of "
        "128, w4a16 M in steps of 64, N of 8 and K of 64",
        to_string(*tile));
  }
  report.cutlass = cutlass_uses(*tile, report.chip);
  return {};
}

Result<Survey> survey_of(const Arguments& arguments, const TacticsReport& report) {
  NIBBLE_ASSIGN_OR_RETURN(const auto threads, arguments.integer("--threads", 1, 1024));
  const auto processors = static_cast<std::int64_t>(usable_processors().size());
  const SurveyRequest request{.products = report.products,
                              .families = report.families,
                              .chip = report.chip,
                              .tile = report.tile,
                              .compile = !arguments.has("--no-compile"),
                              .threads = static_cast<int>(threads.value_or(processors))};
  std::optional<Progress> progress;
  return survey_tactics(request, [&](std::string_view now, int done, int all) {
    if (!progress) progress.emplace("compiling", all, stderr, "");
    if (now.empty()) {
      progress->advance(1);
    } else {
      progress->note(fmt::format("{} of {}: {}", done + 1, all, now));
    }
  });
}

Result<TacticsReport> tactics_report(const Arguments& arguments) {
  TacticsReport report{.command = join(arguments.command_line, " ")};
  NIBBLE_ASSIGN_OR_RETURN(report.chip, tactics_chip(arguments));
  NIBBLE_ASSIGN_OR_RETURN(TacticsSubject subject, tactics_subject(arguments));
  report.subject = std::move(subject.title);
  report.products = std::move(subject.products);
  report.notes = std::move(subject.notes);
  report.families = tactics_families(arguments);
  NIBBLE_RETURN_IF_ERROR(explain(arguments, report));
  NIBBLE_ASSIGN_OR_RETURN(report.survey, survey_of(arguments, report));
  return report;
}

// What a log is read for is another program's tactics: nothing is compiled.
Result<> check_of_log(const Arguments& arguments) {
  for (const auto& [name, values] : arguments.given) {
    if (name == "--from-log" || name == "--arch" || name == "--machine" || name == "--json") {
      continue;
    }
    return usage_error("{} does not apply to \"tactics --from-log\"; leave it out", name);
  }
  return {};
}

Result<int> execute_tactics(const Arguments& arguments) {
  if (arguments.has("--from-log")) {
    NIBBLE_RETURN_IF_ERROR(check_of_log(arguments));
    return run_tactics_log(arguments);
  }
  NIBBLE_ASSIGN_OR_RETURN(const TacticsReport report, tactics_report(arguments));
  if (arguments.has("--json")) {
    fmt::print("{}\n", tactics_document(report).dump());
  } else {
    fmt::print("{}", tactics_text(report, Style::for_stdout()));
  }
  return 0;
}

std::vector<OptionDef> chip_options() {
  return {{.name = "--arch",
           .value = "ARCH",
           .kind = ValueKind::kText,
           .help = "what is compiled for, as sm_120a; with --machine another form of its own"},
          {.name = "--machine",
           .aliases = {"--gpu"},
           .value = "NAME|FILE|this",
           .kind = ValueKind::kMachine,
           .help = "catalog name, machine file, or this machine: its limits and architecture"}};
}

std::vector<OptionDef> survey_options() {
  return {{.name = "--family",
           .value = "NAME",
           .kind = ValueKind::kChoice,
           .help = "4-bit activations on the FP4 instruction, 16-bit ones, or both",
           .default_text = "all",
           .choices = {"w4a4", "w4a16", "all"}},
          {.name = "--explain",
           .value = "MxNxK",
           .kind = ValueKind::kText,
           .help = "the byte budget of one tile, part by part and by stages, as 128x256x128; "
                   "128x256x64B has K in bytes, as CUTLASS names it"},
          {.name = "--no-compile", .help = "shapes and bytes alone, without registers and spills"},
          {.name = "--threads",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "how many are compiled at once",
           .default_text = "the processors of this process"}};
}

}  // namespace

CommandDef tactics_command() {
  std::vector<OptionDef> options = chip_options();
  for (OptionDef& option : tactics_product_options()) options.push_back(std::move(option));
  for (OptionDef& option : survey_options()) options.push_back(std::move(option));
  options.push_back(from_log_option());
  return {
      .name = "tactics",
      .summary =
          "every kernel variant for an architecture: what it needs, whether it fits, why not",
      .description =
          "Compiles the variants (\"tactics\") of the 4-bit grouped product for an architecture, "
          "with no GPU, and says of each what it takes of shared memory, registers and spills, how "
          "many of its blocks an SM holds, and which limit rejects it: the architecture, sizes "
          "that do not divide, shared memory of a block or of an SM, threads, registers, spills. "
          "Where stages, K or blocks would make one fit, it says which.\n\n"
          "The list of tactics is the same for every device; what is feasible depends on the "
          "device and on the product (its experts, for instance, have tables in shared memory). "
          "\"--explain\" shows the bytes of one tile, part by part. \"--from-log\" reads what "
          "another "
          "program's autotuner tried instead.\n\n"
          "What was compiled is kept (docs/cuda.md). Without the CUDA compiler library, shapes and "
          "shared memory are still judged, and registers are unknown with the reason.",
      .options = std::move(options),
      .examples = {{"nibble tactics --machine rtx-pro-6000-server", "GLM-5's experts at TP8"},
                   {"nibble tactics --arch sm_120a --model gpt-oss-120b --tp 2 --json",
                    "another model, as JSON"},
                   {"nibble tactics --machine b200 --family w4a4 --no-compile",
                    "the same list on a chip without that instruction"},
                   {"nibble tactics --arch sm_120a --explain 128x256x128",
                    "the bytes of one tile"}},
      .run = execute_tactics};
}

}  // namespace nibble::cli
