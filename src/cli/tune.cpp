#include "cli/tune.h"

#include <algorithm>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/progress.h"
#include "base/text.h"
#include "bench/cuda_bench.h"
#include "bench/route_draw.h"
#include "bench/tune_job.h"
#include "bench/tune_shapes.h"
#include "cli/tune_report.h"
#include "cli/version.h"
#include "machine/probe.h"
#include "machine/roof_cache.h"
#include "tactics/tune/tuner.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostTuneTokens = 1 << 20;
constexpr std::int64_t kMostTunedRanks = 1 << 16;
constexpr std::int64_t kMostReplays = 10000;
const std::vector<std::int64_t> kTuneTokens = {1, 4, 16, 64};
constexpr double kTuneSeconds = 5;
constexpr std::size_t kMostShown = 400;  // columns of a text that came from elsewhere

// What comes back when a choice that was asked for is not there.
constexpr int kNoChoice = 1;
constexpr int kCheckFailed = 3;

// Lines of anything else that writes to standard output would be taken for answers.
int run_worker() {
  const Descriptor out(::dup(STDOUT_FILENO));
  if (out.get() < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  return tune::serve_worker(make_tune_service, STDIN_FILENO, out.get());
}

Result<std::string> tune_on(const Arguments& arguments) {
  const std::string on = arguments.text("--on").value_or("cpu");
  NIBBLE_ASSIGN_OR_RETURN(const std::optional<int> gpu, parse_on(on));
  return gpu ? fmt::format("cuda:{}", *gpu) : on;
}

Result<std::vector<tune::TuningKey>> tune_keys_of(const Arguments& arguments,
                                                  const std::string& on) {
  TuningSubject subject{.model = *arguments.text("--model")};
  NIBBLE_ASSIGN_OR_RETURN(const auto tp, arguments.integer("--tp", 1, kMostTunedRanks));
  subject.tp = tp.value_or(1);
  NIBBLE_ASSIGN_OR_RETURN(const auto tokens, arguments.integers("--tokens", 1, kMostTuneTokens));
  subject.tokens = tokens.value_or(kTuneTokens);
  if (const auto given = arguments.text("--activations")) {
    subject.activations = format_from_string(*given).value();
  } else if (on != "cpu") {
    subject.activations = Format::kBf16;
  }
  const bool is_fp16 = subject.activations == Format::kFp16;
  if (on == "cpu" && is_fp16) {
    return usage_error("--activations fp16 is of --on cuda:N: no CPU kernel takes it");
  }
  if (on != "cpu" && subject.activations == Format::kInt8) {
    return usage_error("--activations int8 is of --on cpu: no kernel on a GPU takes it");
  }
  NIBBLE_ASSIGN_OR_RETURN(std::vector<tune::TuningKey> keys, tuning_keys(subject));
  NIBBLE_RETURN_IF_ERROR(check_tuning_keys(keys, on != "cpu"));
  return keys;
}

Result<tune::TuneRequest> tune_request(const Arguments& arguments, const std::string& on) {
  tune::TuneRequest request{.again = arguments.has("--again"),
                            .version = std::string(version()),
                            .command = join(arguments.command_line, " ")};
  NIBBLE_ASSIGN_OR_RETURN(request.keys, tune_keys_of(arguments, on));
  if (on == "cpu") {
    NIBBLE_RETURN_IF_ERROR(check_tuning_memory(request.keys, available_memory_bytes()));
  }
  request.output = arguments.text("--output").value_or("");
  request.options.routing = arguments.text("--routing").value_or("random");
  NIBBLE_ASSIGN_OR_RETURN(const auto seconds, arguments.number("--seconds", 0.01, 3600));
  request.options.seconds = seconds.value_or(kTuneSeconds);
  NIBBLE_ASSIGN_OR_RETURN(const auto replays, arguments.integer("--replays", 2, kMostReplays));
  request.options.replays = static_cast<int>(replays.value_or(request.options.replays));
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  request.options.seed = static_cast<std::uint64_t>(seed.value_or(1));
  return request;
}

Result<int> run_tune(const Arguments& arguments) {
  if (!arguments.has("--model")) {
    return usage_error("nibble tune needs --model, whose products it tunes, or --audit FILE");
  }
  NIBBLE_ASSIGN_OR_RETURN(const std::string on, tune_on(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const tune::TuneRequest request, tune_request(arguments, on));
  TuneJob job{.on = on,
              .routing = request.options.routing,
              .experts = request.keys.front().shape.experts,
              .seed = request.options.seed};
  for (const tune::TuningKey& key : request.keys) job.tokens.push_back(key.tokens);
  // Told here, where it is the command line's fault.
  if (const Result<RouteDraw> routing = parse_routing_or_file(job.routing, job.experts);
      !routing.ok()) {
    return routing.error();
  }
  tune::WorkerBackend backend(
      {.words = {"/proc/self/exe", "tune", "--worker"}, .job = to_json(job)});
  Progress progress("tuning", 0, stderr, "");
  NIBBLE_ASSIGN_OR_RETURN(const tune::TuneReport report,
                          tune::tune_keys(backend, request, steady_now, unix_now,
                                          [&](std::string_view what) { progress.note(what); }));
  if (arguments.has("--json")) {
    fmt::print("{}\n", to_json(report.file).dump());
    // A document of the file has no place for what is not in it.
    for (const tune::TuningEntry& entry : report.without_candidates) {
      fmt::print(stderr, "nibble: {}: {}\n", tune::to_string(entry.key),
                 printable(entry.note, kMostShown));
    }
  } else {
    const tune::Audit audit = tune::audit_tuning(report.file, request.keys);
    fmt::print(
        "{}",
        tune_text(report.file, audit,
                  {.path = report.path.string(), .notes = report.notes, .reused = report.reused},
                  Style::for_stdout()));
  }
  return report.failed() ? kNoChoice : 0;
}

struct ComparedAudit {
  std::optional<bool> of_use;  // nullopt: there was nothing to compare with
  std::string note;
};

// The file against where --on says; without it against this processor, or this machine's first GPU,
// whichever made it.
Result<ComparedAudit> compare_site(const std::string& path, const tune::TuningSite& made,
                                   const Arguments& arguments) {
  const bool of_cpu = made.driver == "none";
  std::string on = of_cpu ? "cpu" : "cuda:0";
  if (arguments.has("--on")) {
    NIBBLE_ASSIGN_OR_RETURN(on, tune_on(arguments));
  }
  const Result<tune::TuningSite> here = tuning_site(on);
  if (!here.ok()) {
    if (arguments.has("--on")) return here.error();
    return ComparedAudit{.note = fmt::format("{} was not compared with this machine: {}", path,
                                             here.error().message)};
  }
  const std::string stale = tune::difference(made, *here);
  if (stale.empty()) return ComparedAudit{true, fmt::format("{} is of use on {}", path, on)};
  return ComparedAudit{false, fmt::format("{} is not used on {}: {}", path, on, stale)};
}

Json audit_document(const std::string& path, const tune::TuningFile& file, const tune::Audit& audit,
                    const ComparedAudit& compared, const Arguments& arguments) {
  Json json = Json::object();
  json.set("schema", "nibble.tuning_audit/1").set("version", version());
  json.set("command", join(arguments.command_line, " ")).set("file", path);
  json.set("site", to_json(file.site));
  const Json body = to_json(audit);
  for (const Json::Member& member : body.as_object()) json.set(member.first, member.second);
  json.set("of_use", compared.of_use ? Json(*compared.of_use) : Json());
  return json.set("notes", Json::array().push(compared.note));
}

Result<int> run_audit(const Arguments& arguments) {
  for (const char* flag :
       {"--output", "--seconds", "--replays", "--again", "--routing", "--seed"}) {
    if (!arguments.has(flag)) continue;
    return usage_error(
        "{} does not apply to \"tune --audit\", which measures nothing; leave it out", flag);
  }
  const std::string path = *arguments.text("--audit");
  NIBBLE_ASSIGN_OR_RETURN(const tune::TuningFile file, tune::read_tuning(path));
  std::vector<tune::TuningKey> needed;
  if (arguments.has("--model")) {
    // Of a GPU's file, a GPU's activations.
    const std::string of = file.site.driver == "none" ? "cpu" : "cuda:0";
    NIBBLE_ASSIGN_OR_RETURN(needed, tune_keys_of(arguments, of));
  }
  NIBBLE_ASSIGN_OR_RETURN(const ComparedAudit compared, compare_site(path, file.site, arguments));
  const tune::Audit audit = tune::audit_tuning(file, needed);
  if (arguments.has("--json")) {
    fmt::print("{}\n", audit_document(path, file, audit, compared, arguments).dump());
  } else {
    fmt::print("{}", tune_text(file, audit, {.path = path, .notes = {compared.note}},
                               Style::for_stdout()));
  }
  const bool whole = audit.missing.empty() && audit.without_choice == 0;
  return whole && compared.of_use.value_or(true) ? 0 : kCheckFailed;
}

Result<int> execute_tune(const Arguments& arguments) {
  if (arguments.has("--worker")) return run_worker();
  return arguments.has("--audit") ? run_audit(arguments) : run_tune(arguments);
}

std::vector<OptionDef> tuned_options() {
  return {{.name = "--model",
           .value = "NAME|FILE|DIR",
           .kind = ValueKind::kModel,
           .help = "the model whose layer of experts is tuned"},
          {.name = "--tp",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "ranks that the model is split over",
           .default_text = "1"},
          {.name = "--tokens",
           .value = "LIST",
           .kind = ValueKind::kIntegerList,
           .help = "tokens of a step; each choice also holds for fewer, down to a quarter",
           .default_text = "1,4,16,64"},
          {.name = "--activations",
           .value = "FORMAT",
           .kind = ValueKind::kChoice,
           .help = "number format of the activations",
           .default_text = "the checkpoint's; on a GPU bf16",
           .choices = {"bf16", "int8", "nvfp4", "fp16"}},
          {.name = "--routing",
           .value = "KIND|FILE",
           .kind = ValueKind::kText,
           .help = "how tokens choose experts: balanced, random, zipf:S, or recorded counts "
                   "(nibble.routing/1)",
           .default_text = "random"},
          {.name = "--on",
           .value = "cpu|cuda:N",
           .kind = ValueKind::kText,
           .help = "what to tune on; with --audit, what the file is to be of use on",
           .default_text = "cpu; with --audit what the file was made on"}};
}

std::vector<OptionDef> measure_options() {
  return {{.name = "--output",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "the tuning file to add to (nibble.tuning/1)",
           .default_text = "tuning/DEVICE.json in nibble's cache folder"},
          {.name = "--seconds",
           .value = "S",
           .kind = ValueKind::kNumber,
           .help = "most time for timing a key, unless it is decided sooner",
           .default_text = "5"},
          {.name = "--replays",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "runs of each check, which must give the same bits",
           .default_text = "50"},
          {.name = "--again", .help = "measure keys that the file has already"},
          {.name = "--seed",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "seed of weights, activations, routing and order",
           .default_text = "1"},
          {.name = "--audit",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "measure nothing: what a tuning file chose, and what --model needs of it"},
          {.name = "--worker",
           .help = "answer a tuner's requests on standard input: what nibble tune starts"}};
}

}  // namespace

CommandDef tune_command() {
  std::vector<OptionDef> options = tuned_options();
  for (OptionDef& option : measure_options()) options.push_back(std::move(option));
  return {
      .name = "tune",
      .summary = "checks, times and chooses kernel variants; writes them down; audits the choice",
      .description =
          "Tries every variant (\"tactic\") of the two products of a model's layer of experts, at "
          "their shapes on one rank. Each is first checked against the reference, at both ends of "
          "the range of tokens that it is to serve, and run again and again on one input: a "
          "variant that is wrong once, or gives other bits once, is named and never timed. Those "
          "that are right are timed in turns, cold, with the routing that was asked for.\n\n"
          "The default stays unless another beats it beyond noise and by 2 %: docs/tuning.md says "
          "how. Variants run in a child process, so that one that crashes or hangs costs itself "
          "alone. Two processes that tune into one file come to one choice: the second waits, and "
          "takes what the first decided.\n\n"
          "\"nibble bench moe --tuning FILE\" and \"nibble serve --tuning FILE\" run with the "
          "choices, and say which were found. "
          "\"--audit\" shows each choice with its runner-up, what the default loses, ties, what "
          "was rejected and why, which keys of --model the file lacks, and whether the file would "
          "be used on this machine "
          "(status 3 where a key is missing or the file is not used).",
      .options = std::move(options),
      .examples = {{"nibble tune --model glm-5-nvfp4 --tp 8 --tokens 1,4,16,64",
                    "GLM-5's experts on one of eight ranks, on this processor"},
                   {"nibble tune --model glm-5-nvfp4 --tp 8 --on cuda:0 --routing routing.json "
                    "--output h200.json",
                    "the same on a GPU, with recorded routing"},
                   {"nibble tune --audit h200.json --model glm-5-nvfp4 --tp 8",
                    "what it chose, and what is missing"}},
      .run = execute_tune};
}

}  // namespace nibble::cli
