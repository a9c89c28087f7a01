#include "cli/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "cli/bench_cuda.h"
#include "cli/diagnose_diff.h"
#include "cli/diagnose_experiments.h"
#include "cli/diagnose_gpu.h"
#include "cli/diagnose_live.h"
#include "cli/diagnose_options.h"
#include "cli/load_flags.h"
#include "diagnose/document.h"
#include "diagnose/proposals.h"
#include "diagnose/read_evidence.h"
#include "explain/case.h"
#include "report/terminal.h"

namespace nibble::cli {
namespace {

using diagnose::Diagnosis;
using diagnose::Evidence;

constexpr std::size_t kMostDocumentBytes = std::size_t{64} << 20;

// The documents that --case, --from and --trace name.
struct Inputs {
  Evidence evidence;
  std::optional<CaseAnalysis> analysis;  // of a case
};

Result<> read_named_case(const std::string& name, Inputs& inputs) {
  std::string text;
  if (const auto built_in = built_in_case(name)) {
    text = *built_in;
  } else {
    NIBBLE_RETURN_IF_ERROR(load_case(name));  // a name that is none gets the nearest ones
    NIBBLE_ASSIGN_OR_RETURN(text, read_file(name, kMostDocumentBytes));
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, name));
  NIBBLE_ASSIGN_OR_RETURN(inputs.analysis,
                          diagnose::read_case(json, {.name = name}, inputs.evidence));
  return {};
}

// Documents with levels come first, because the others say something of levels.
Result<> read_inputs(const Arguments& arguments, Inputs& inputs) {
  if (const auto name = arguments.text("--case")) {
    NIBBLE_RETURN_IF_ERROR(read_named_case(*name, inputs));
  }
  for (const std::string& path : arguments.all("--from")) {
    NIBBLE_ASSIGN_OR_RETURN(diagnose::DocumentRead read,
                            diagnose::read_document(path, inputs.evidence));
    if (read.analysis) inputs.analysis = std::move(read.analysis);
  }
  if (const auto path = arguments.text("--trace")) {
    trace::TraceOptions options;
    if (const auto map = arguments.text("--trace-map")) options.mapping = *map;
    NIBBLE_ASSIGN_OR_RETURN(const trace::TraceSummary summary, trace::load_trace(*path, options));
    const std::string name = std::filesystem::path(*path).filename().string();
    diagnose::read_trace_summary(summary, {.name = name}, inputs.evidence);
  }
  return {};
}

// The floor of a recorded load, where flags describe its deployment.
Result<> fill_recorded_floor(const Arguments& arguments, Inputs& inputs) {
  Evidence& evidence = inputs.evidence;
  if (evidence.gpu) return fill_from_gpu(arguments, inputs.analysis, evidence);
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<Ledger> ledger,
                          ledger_from(load_arguments(arguments), std::nullopt));
  if (ledger) diagnose::fill_floor(*ledger, evidence);
  return {};
}

// Options that say how to load a server mean nothing where none is loaded: whoever gives them
// expects something else.
Result<> refuse_load_options(const Arguments& arguments) {
  for (const OptionDef& option : diagnose_options()) {
    const bool fits = !loads_a_server(option) || !arguments.has(option.name);
    if (fits) continue;
    return usage_error(
        "{} says how to measure a server, and with --case, --from, --trace or --on alone none is; "
        "leave it out, or name the server with --server",
        option.name);
  }
  return {};
}

// Kernels on a GPU alone are as little asked of a server as a document is.
bool is_recorded(const Arguments& arguments, bool on_gpu) {
  const bool server =
      arguments.has("--base-url") || arguments.has("--host") || (on_gpu && arguments.has("--port"));
  const bool documents =
      arguments.has("--case") || arguments.has("--from") || arguments.has("--trace");
  return (documents || on_gpu) && !server;
}

Diagnosis finished(Evidence evidence, const std::optional<CaseAnalysis>& analysis) {
  Diagnosis diagnosis = diagnose::conclude(std::move(evidence));
  if (analysis) diagnose::add_case(*analysis, diagnosis);
  return diagnosis;
}

Result<int> show(const Arguments& arguments, const Diagnosis& diagnosis) {
  const diagnose::DocumentOptions options = {
      .command = command_without_secrets(arguments.command_line),
      .show_hosts = arguments.has("--show-hosts")};
  const Document document = diagnose::diagnosis_document(diagnosis, options);
  std::optional<std::filesystem::path> page;
  if (const auto directory = arguments.text("--report")) {
    NIBBLE_ASSIGN_OR_RETURN(page, write_report(document, *directory));
  }
  if (arguments.has("--json")) {
    fmt::print("{}\n", document.data.dump());
    return 0;
  }
  if (page) fmt::print("The report is {}\n\n", page->string());
  fmt::print("{}", render_terminal(document, Style::for_stdout()));
  return 0;
}

// Steps of so many sequences where there is no load beside the kernels.
const std::vector<double> kStepsAlone = {1, 8, 64, 256};

Result<int> diagnose_recorded(const Arguments& arguments, bool on_gpu) {
  if (arguments.has("--experiment")) {
    return usage_error("--experiment needs a server that runs; recorded numbers cannot be asked");
  }
  NIBBLE_RETURN_IF_ERROR(refuse_load_options(arguments));
  Inputs inputs;
  NIBBLE_RETURN_IF_ERROR(read_inputs(arguments, inputs));
  if (on_gpu) {
    NIBBLE_ASSIGN_OR_RETURN(GpuRun gpu,
                            GpuRun::prepare(arguments, inputs.analysis, inputs.evidence));
    NIBBLE_RETURN_IF_ERROR(gpu.measure(kStepsAlone, inputs.evidence));
  }
  NIBBLE_RETURN_IF_ERROR(fill_recorded_floor(arguments, inputs));
  return show(arguments, finished(std::move(inputs.evidence), inputs.analysis));
}

// For the load alone: without --gpu the floor waits for the GPU's own roofs.
Arguments without_fit(const Arguments& arguments) {
  Arguments load = arguments;
  if (load.has("--machine")) return load;
  for (const OptionDef& option : diagnose_options()) {
    if (option.group == kFitOptions && option.name != "--model") load.given.erase(option.name);
  }
  return load;
}

Result<int> diagnose_live(const Arguments& arguments, bool on_gpu) {
  Inputs inputs;
  NIBBLE_RETURN_IF_ERROR(read_inputs(arguments, inputs));
  if (!inputs.evidence.levels.empty()) {
    return usage_error(
        "a server was named beside a case or a load test of before; give one of them, and compare "
        "two diagnoses with --diff");
  }
  std::optional<GpuRun> gpu;
  if (on_gpu) {
    NIBBLE_ASSIGN_OR_RETURN(gpu, GpuRun::prepare(arguments, inputs.analysis, inputs.evidence));
  }
  NIBBLE_ASSIGN_OR_RETURN(LiveRun live, LiveRun::prepare(gpu ? without_fit(arguments) : arguments));
  if (gpu) {
    // Before the load: kernels and a batch that share a GPU would both be timed wrongly.
    const std::vector<std::int64_t> users = live.users();
    NIBBLE_RETURN_IF_ERROR(gpu->measure({users.begin(), users.end()}, inputs.evidence));
  }
  NIBBLE_RETURN_IF_ERROR(live.measure(inputs.evidence));
  if (gpu) NIBBLE_RETURN_IF_ERROR(fill_from_gpu(arguments, inputs.analysis, inputs.evidence));
  Diagnosis diagnosis = finished(std::move(inputs.evidence), inputs.analysis);
  if (arguments.has("--experiment") && live.why_ended_early().empty()) {
    diagnosis.experiments.push_back(run_experiment(diagnosis.verdicts.front(), diagnosis, live));
  }
  NIBBLE_ASSIGN_OR_RETURN(const int status, show(arguments, diagnosis));
  if (!live.why_ended_early().empty()) return run_error("{}", live.why_ended_early());
  return status;
}

Result<int> execute_diagnose(const Arguments& arguments) {
  if (arguments.has("--diff")) return run_diagnose_diff(arguments);
  if (arguments.has("--trace-map") && !arguments.has("--trace")) {
    return usage_error("--trace-map says how to read a trace; give it, too, with --trace");
  }
  NIBBLE_ASSIGN_OR_RETURN(const bool on_gpu, is_on_cuda(arguments));
  return is_recorded(arguments, on_gpu) ? diagnose_recorded(arguments, on_gpu)
                                        : diagnose_live(arguments, on_gpu);
}

}  // namespace

CommandDef diagnose_command() {
  return {
      .name = "diagnose",
      .summary = "measures everything, says what holds a deployment back, and proves it",
      .description =
          "Without arguments it starts a server with the model that is built in, measures the "
          "machine's roofs, the kernels alone and a sweep of load, and says what came out. With "
          "--server it does so for a server that runs: vLLM, SGLang, TensorRT-LLM, llama.cpp or "
          "nibble serve, with its own counters and, with --telemetry, the samples of `nibble "
          "watch` "
          "on its hosts; --model-config and --gpu give the floor. With --case or --from nothing is "
          "measured.\n\n"
          "With --on cuda:0 the roofs of that GPU and the kernels of one rank's step are timed on "
          "it: beside --from, --case or --server, or alone. What no kernel covers is named, and a "
          "load that another GPU served is not explained by them.\n\n"
          "Verdicts are of eighteen classes (docs/diagnosis.md), each with the evidence for it and "
          "against it, what is missing, and the cheapest experiment that would settle it; "
          "--experiment runs it where nibble can. Proposals are ranked by what they can win at "
          "most. Host names and folders are redacted unless --show-hosts.",
      .options = diagnose_options(),
      .examples =
          {{"nibble diagnose --report out", "this machine, with the model that is built in"},
           {"nibble diagnose --server http://gpu7:8000 --model-config glm-5-nvfp4 --gpu "
            "rtx-pro-6000-server --tp 8 --telemetry gpu7:9753 --report out",
            "a server that runs, with `nibble watch --listen` on its host"},
           {"nibble diagnose --case glm5_rtxpro6000", "recorded numbers"},
           {"nibble diagnose --from load.json --trace trace.json.gz --model-config deepseek-r1 "
            "--gpu h200 --tp 8",
            "a load test and a profile of before"},
           {"nibble diagnose --on cuda:0 --model glm-5-nvfp4 --tp 8 --from load.json",
            "roofs and a rank's kernels on this GPU, beside a load test of before"},
           {"nibble diagnose --diff before.json after.json", "what a change changed"}},
      .run = execute_diagnose};
}

}  // namespace nibble::cli
