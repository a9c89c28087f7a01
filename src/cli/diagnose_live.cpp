#include "cli/diagnose_live.h"

#include <algorithm>
#include <system_error>

#include "base/progress.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "bench/step.h"
#include "cli/diagnose_options.h"
#include "cli/embedded_model.h"
#include "cli/load_flags.h"
#include "cli/load_outputs.h"
#include "cli/load_run.h"
#include "diagnose/read_evidence.h"
#include "drive/server_identity.h"
#include "machine/probe.h"
#include "net/url.h"

namespace nibble::cli {
namespace {

// Of the kernels alone, for each number of sequences: medians of some hundred steps.
constexpr double kKernelSeconds = 1;
constexpr double kMostThreads = 1024;

// One user after the other up to where two cores are long busy, each for as long as energy counters
// and a steady window want. Decoding is what is diagnosed, so that prompts are short.
const std::vector<LoadChange> kOwnLoad = {{"--max-concurrency", "1,2,4,8,16,32"},
                                          {"--duration", "6"},
                                          {"--grace", "5"},
                                          {"--random-input-len", "16"},
                                          {"--random-output-len", "64"},
                                          {"--temperature", "server"}};
const std::vector<LoadChange> kAnyLoad = {{"--max-concurrency", "1,4,16,64,256"},
                                          {"--duration", "20"},
                                          {"--random-input-len", "128"},
                                          {"--random-output-len", "128"}};

// What the user said counts; the rest is ours.
void set_defaults(Arguments& arguments, const std::vector<LoadChange>& defaults) {
  const auto names = [&arguments](std::string_view option) { return arguments.has(option); };
  const bool other_prompts = names("--dataset-name") || names("--input-len");
  const bool open_loop = names("--request-rate");
  for (const auto& [option, value] : defaults) {
    if (arguments.has(option)) continue;
    if (other_prompts && option.starts_with("--random-")) continue;
    if (open_loop && option == "--max-concurrency") continue;
    if (option == "--duration" && names("--num-prompts")) continue;
    arguments.given[option] = {value};
  }
}

bool names_a_server(const Arguments& arguments) {
  return arguments.has("--base-url") || arguments.has("--host") || arguments.has("--port");
}

telemetry::WebOptions web_of(const drive::Target& target) {
  telemetry::WebOptions web;
  web.headers = target.client.headers;
  web.verify_certificate = target.client.verify_certificate;
  web.ca_file = target.client.ca_file;
  return web;
}

bool on_this_host(const net::Url& url) {
  return url.host == "127.0.0.1" || url.host == "localhost" || url.host == "::1";
}

std::optional<Format> format_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  if (member == nullptr || !member->is_string()) return std::nullopt;
  return format_from_string(member->as_string());
}

}  // namespace

Result<LiveRun> LiveRun::prepare(const Arguments& arguments) {
  LiveRun run(load_arguments(arguments));
  if (names_a_server(arguments)) {
    set_defaults(run.load_, kAnyLoad);
    if (arguments.has("--serve-option")) {
      return usage_error(
          "--serve-option is for the server that nibble starts itself; leave it or --server out");
    }
    run.look_for_model();
  } else {
    set_defaults(run.load_, kOwnLoad);
    NIBBLE_RETURN_IF_ERROR(run.start_own(arguments));
  }
  // Faults of the command line are told before anything takes time.
  NIBBLE_ASSIGN_OR_RETURN(const LoadFlags flags, load_flags_from(run.load_));
  static_cast<void>(flags);
  return run;
}

Result<> LiveRun::start_own(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const std::filesystem::path folder, model_folder(arguments));
  std::vector<std::string> words = {"--model", folder.string()};
  for (const std::string& word : arguments.all("--serve-option")) words.push_back(word);
  NIBBLE_ASSIGN_OR_RETURN(ChildServer server, ChildServer::start(words));
  load_.given["--base-url"] = {server.url()};
  load_.given.erase("--model");
  server_.emplace(std::move(server));
  look_for_model();  // with the formats and threads that its options gave it
  return {};
}

// A server of ours on this machine tells where its model lies and how it computes: then its kernels
// can be measured here.
void LiveRun::look_for_model() {
  Notes notes;
  const Result<drive::Target> target = target_from(load_, notes);
  if (!target.ok()) return;  // said when the flags are read
  if (!on_this_host(target->url)) {
    no_kernels_ = "the server runs on another host: nibble bench --json there, and --from its file";
    return;
  }
  const drive::ServerIdentity identity = drive::identify(target->url, web_of(*target));
  const Json* info = identity.json.find("server_info");
  const Json* model = info != nullptr ? info->find("model") : nullptr;
  const Json* path = model != nullptr ? model->find("path") : nullptr;
  if (identity.engine != "nibble" || path == nullptr || !path->is_string()) {
    no_kernels_ = fmt::format("the kernels of {} are not nibble's: they take a trace (--trace)",
                              identity.engine.empty() ? "this server" : identity.engine);
    return;
  }
  std::error_code fault;
  if (!std::filesystem::is_directory(path->as_string(), fault)) {
    no_kernels_ = fmt::format("{} is not on this machine", printable(path->as_string()));
    return;
  }
  folder_ = path->as_string();
  options_.activations = format_member(*model, "activations").value_or(options_.activations);
  options_.kv_format = format_member(*model, "kv_format").value_or(options_.kv_format);
  const Json* engine = info->find("engine");
  const Json* threads = engine != nullptr ? engine->find("threads") : nullptr;
  if (threads != nullptr && threads->is_integer()) {
    threads_ = static_cast<int>(std::clamp(threads->as_number(), 1.0, kMostThreads));
  }
}

std::vector<std::int64_t> LiveRun::users() const {
  const auto given = load_.integers("--max-concurrency", 1);
  return given.ok() && *given ? **given : std::vector<std::int64_t>{1, 4, 16};
}

void LiveRun::measure_kernels(diagnose::Evidence& evidence) {
  if (folder_.empty()) {
    evidence.kernels_reason = no_kernels_;
    return;
  }
  StepRequest request;
  request.folder = folder_;
  request.options = options_;
  request.sequences = users();
  // A server's steps follow each other, and what fits into a cache stays there.
  request.cold = false;
  request.seconds = kKernelSeconds;
  request.threads = threads_;
  const auto context = length("--random-input-len") + length("--random-output-len") / 2;
  request.context = std::clamp<std::int64_t>(context, 1, 4096);
  Progress progress("kernels", static_cast<double>(request.sequences.size()), stderr, "levels");
  const Result<StepReport> report =
      measure_step(request, [&progress](std::string_view what, double) { progress.note(what); });
  if (!report.ok()) {
    evidence.kernels_reason = report.error().message;
    return;
  }
  Result<Ledger> ledger = step_ledger(request, report->cpu, report->roofs.roofs);
  if (ledger.ok()) ledger_ = std::move(*ledger);
  kernels_ = to_json(*report);
}

Result<Json> LiveRun::run(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(LoadFlags flags, load_flags_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const RowsFile rows, RowsFile::make(flags.outputs));
  flags.run.rows = rows.path();
  NIBBLE_ASSIGN_OR_RETURN(const drive::RunOutcome outcome, run_load(flags));
  if (!ledger_ && flags.ledger) ledger_ = std::move(flags.ledger);
  if (outcome.ended_early) ended_early_ = outcome.ended_early->message;
  const auto& levels = outcome.report.levels;
  const bool any = std::any_of(levels.begin(), levels.end(), [](const load::LevelResult& level) {
    return level.report.all.counts.ok > 0;
  });
  if (!any) {
    return run_error("no request succeeded{}{}", ended_early_.empty() ? "" : ": ", ended_early_);
  }
  return load::to_json(outcome.report);
}

Result<> LiveRun::measure(diagnose::Evidence& evidence) {
  measure_kernels(evidence);
  NIBBLE_ASSIGN_OR_RETURN(const Json load, run(load_));
  constexpr diagnose::Origin kNow = diagnose::Origin::kMeasured;
  NIBBLE_RETURN_IF_ERROR(
      diagnose::read_load(load, {.name = "nibble load", .origin = kNow}, evidence));
  if (!kernels_.is_null()) {
    NIBBLE_RETURN_IF_ERROR(
        diagnose::read_bench(kernels_, {.name = "nibble bench step", .origin = kNow}, evidence));
  }
  if (ledger_) diagnose::fill_floor(*ledger_, evidence);
  return {};
}

Result<Json> LiveRun::load_again(const std::vector<LoadChange>& changes) {
  Arguments changed = load_;
  for (const auto& [option, value] : changes) changed.given[option] = {value};
  return run(changed);
}

bool LiveRun::random_prompts() const {
  const std::string name = load_.text("--dataset-name").value_or("random");
  return name.starts_with("random") && !load_.has("--input-len") && !load_.has("--output-len");
}

std::int64_t LiveRun::length(std::string_view option) const {
  const auto given = load_.integer(option, 1);
  return given.ok() && *given ? **given : 128;
}

}  // namespace nibble::cli
