#include "cli/load_flags.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "base/text.h"
#include "cli/deployment_flags.h"
#include "cli/load_dataset.h"
#include "drive/redact.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kMostLoops = 256;

Result<> take_limit(std::string_view text, load::Slo& slo) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::optional<double>* limit = name == "ttft"   ? &slo.ttft_ms
                                 : name == "tpot" ? &slo.tpot_ms
                                 : name == "itl"  ? &slo.itl_ms
                                 : name == "e2el" ? &slo.e2el_ms
                                                  : nullptr;
  Arguments one;
  one.given["--goodput"] = {colon == std::string_view::npos ? std::string()
                                                            : std::string(text.substr(colon + 1))};
  const auto ms = one.number("--goodput", 0, 1e9);
  if (limit == nullptr || !ms.ok()) {
    return usage_error(
        "--goodput has \"{}\"; give ttft, tpot, itl or e2el and its limit in ms, as ttft:200",
        printable(text));
  }
  if (*limit) return usage_error("--goodput limits {} twice; give one", name);
  *limit = *ms;
  return {};
}

// Values of a repeated option, each of which may be a list.
std::vector<std::string> all_of_lists(const Arguments& arguments, std::string_view option) {
  std::vector<std::string> values;
  for (const std::string& text : arguments.all(option)) {
    for (std::string& value : split(text, ',')) values.push_back(std::move(value));
  }
  return values;
}

Result<telemetry::TelemetryOptions> telemetry_from(const Arguments& arguments,
                                                   const drive::Target& target, Notes& notes) {
  telemetry::TelemetryOptions options;
  if (arguments.has("--no-telemetry")) {
    for (const char* flag : {"--telemetry", "--server-metrics"}) {
      if (!arguments.has(flag)) continue;
      return usage_error("{} and --no-telemetry exclude each other; give one", flag);
    }
  }
  options.gpus = !arguments.has("--no-gpu");
  options.remotes = all_of_lists(arguments, "--telemetry");
  options.servers = all_of_lists(arguments, "--server-metrics");
  options.web.verify_certificate = target.client.verify_certificate;
  options.web.ca_file = target.client.ca_file;
  bool elsewhere = false;
  for (std::string& server : options.servers) {
    if (server.find("://") == std::string::npos) server.insert(0, "http://");
    const Result<net::Url> url = net::parse_url(server);
    if (!url.ok()) return url.error().within("--server-metrics");
    elsewhere = elsewhere || url->authority() != target.url.authority();
  }
  // A key is for the server that it was given for.
  if (!elsewhere) {
    options.web.headers = target.client.headers;
  } else if (!target.client.headers.empty()) {
    notes.push_back(
        "headers and API key are not sent to metrics pages, since --server-metrics names other "
        "servers");
  }
  return options;
}

std::string time_text(const char* format, std::time_t now, bool utc) {
  std::tm parts = {};
  if (utc) {
    ::gmtime_r(&now, &parts);
  } else {
    ::localtime_r(&now, &parts);
  }
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

Result<> add_metadata(const Arguments& arguments, load::RunSetup& setup) {
  for (const std::string& text : arguments.all("--metadata")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return usage_error("--metadata is \"{}\"; write KEY=VALUE", printable(text));
    }
    const std::string key = text.substr(0, equals);
    for (const auto& [other, ignored] : setup.metadata) {
      if (other == key) return usage_error("--metadata gives {} twice; give it once", key);
    }
    setup.metadata.emplace_back(key, drive::names_a_secret(key) ? "***" : text.substr(equals + 1));
  }
  return {};
}

// What the run cannot know by itself.
Result<load::RunSetup> setup_from(const Arguments& arguments, const drive::Target& target,
                                  const DatasetFlags& dataset, const TokenizerChoice& tokenizer) {
  load::RunSetup setup;
  const std::time_t now = std::time(nullptr);
  setup.date = time_text("%Y%m%d-%H%M%S", now, false);
  setup.started_utc = time_text("%Y-%m-%dT%H:%M:%SZ", now, true);
  setup.command = command_without_secrets(arguments.command_line);
  setup.backend = target.backend.name;
  setup.tokenizer_id = tokenizer.id;
  setup.dataset = dataset.name;
  setup.dataset_options = dataset.described();
  setup.label = arguments.text("--label").value_or("");
  setup.seed = static_cast<std::int64_t>(dataset.random.seed);
  NIBBLE_RETURN_IF_ERROR(add_metadata(arguments, setup));
  return setup;
}

// Of each level; nullopt where they differ, or end otherwise.
std::optional<std::int64_t> common_requests(const std::vector<drive::LevelOptions>& levels) {
  const std::int64_t first = levels.front().requests;
  const bool alike = std::all_of(levels.begin(), levels.end(),
                                 [first](const auto& level) { return level.requests == first; });
  return alike && first > 0 ? std::optional(first) : std::nullopt;
}

// What differs from the benchmark whose names these are.
void note_rules(const Arguments& arguments, const drive::Target& target, Notes& notes) {
  if (follows_sglang(target.backend)) {
    notes.push_back(
        "rules of SGLang's benchmark: ignore_eos is on, 1 warm-up request a level, the range ratio "
        "R means lengths from len R to len, and e2e_latency ends at the last byte");
  } else if (target.ignore_eos && !arguments.has("--ignore-eos")) {
    notes.push_back(
        "ignore_eos is on, so that answers have the length asked for; vLLM's benchmark leaves it "
        "off, as --disable-ignore-eos does");
  }
}

Result<> take_rest(const Arguments& arguments, drive::RunOptions& run) {
  NIBBLE_ASSIGN_OR_RETURN(const auto patience,
                          seconds_from(arguments, "--ready-check-timeout-sec"));
  run.ready_timeout = patience.value_or(0);
  NIBBLE_ASSIGN_OR_RETURN(const auto loops, arguments.integer("--loops", 1, kMostLoops));
  run.loops = static_cast<std::size_t>(loops.value_or(0));
  const std::string audit = arguments.text("--self-audit").value_or("cached");
  run.self_audit = audit == "off"     ? drive::SelfAudit::kOff
                   : audit == "fresh" ? drive::SelfAudit::kFresh
                                      : drive::SelfAudit::kCached;
  run.telemetry = !arguments.has("--no-telemetry");
  run.server_metrics = !arguments.has("--no-server-metrics");
  run.flush_cache = arguments.has("--flush-cache");
  std::random_device source;
  run.nonce = (static_cast<std::uint64_t>(source()) << 32U) | source();
  return {};
}

}  // namespace

Result<load::MetricsOptions> metrics_from(const Arguments& arguments) {
  load::MetricsOptions options;
  for (const std::string& limit : all_of_lists(arguments, "--goodput")) {
    NIBBLE_RETURN_IF_ERROR(take_limit(limit, options.slo));
  }
  for (const std::string& text : all_of_lists(arguments, "--metric-percentiles")) {
    Arguments one;
    one.given["--metric-percentiles"] = {text};
    const auto percentile = one.number("--metric-percentiles", 0, 99.9999, true);
    if (!percentile.ok()) {
      return usage_error("--metric-percentiles has \"{}\"; give numbers above 0 and below 100",
                         printable(text));
    }
    options.asked.push_back(**percentile / 100);
  }
  const auto sort_once = [](std::vector<double>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  sort_once(options.asked);
  options.quantiles.insert(options.quantiles.end(), options.asked.begin(), options.asked.end());
  sort_once(options.quantiles);
  return options;
}

Result<std::optional<Ledger>> ledger_from(const Arguments& arguments,
                                          const std::optional<double>& context) {
  if (!arguments.has("--machine")) {
    std::vector<std::string> names = {"--model-config"};
    for (const OptionDef& option : deployment_options()) names.push_back(option.name);
    for (const std::string& name : names) {
      if (name == "--model" || !arguments.has(name)) continue;
      return usage_error("{} describes a deployment; name its GPU, too, as --gpu h200", name);
    }
    return std::optional<Ledger>();
  }
  const bool own = arguments.has("--model-config");
  const auto model = arguments.text(own ? "--model-config" : "--model");
  if (!model) {
    return usage_error(
        "--gpu asks for the physical fit, which needs the model; give --model or --model-config a "
        "catalog name, a config.json or a folder");
  }
  Arguments deployment = arguments;
  deployment.given["--model"] = {*model};
  if (!arguments.has("--context") && context) {
    deployment.given["--context"] = {fmt::format("{:.0f}", std::max(1.0, *context))};
  }
  Result<Deployment> described = deployment_from(deployment);
  if (!described.ok()) {
    Error error = described.error();
    // A served name is no mistake; it only says nothing about the model's shape.
    if (!own && error.message.find(*model) != std::string::npos) {
      error.message += "; --model-config names what is served, when --model is the server's name";
    }
    return error;
  }
  NIBBLE_ASSIGN_OR_RETURN(Ledger ledger, Ledger::make(std::move(*described)));
  return std::optional<Ledger>(std::move(ledger));
}

Result<LoadFlags> load_flags_from(const Arguments& arguments) {
  LoadFlags flags;
  Notes notes;
  NIBBLE_RETURN_IF_ERROR(check_foreign_flags(arguments, notes));
  drive::RunOptions& run = flags.run;
  NIBBLE_ASSIGN_OR_RETURN(run.target, target_from(arguments, notes));
  note_rules(arguments, run.target, notes);
  NIBBLE_ASSIGN_OR_RETURN(const DatasetFlags dataset,
                          dataset_flags_from(arguments, run.target.backend, notes));
  const LevelDefaults defaults = {.requests = dataset.prompts_of_a_round(),
                                  .seed = dataset.random.seed};
  NIBBLE_ASSIGN_OR_RETURN(run.levels, levels_from(arguments, defaults, notes));
  NIBBLE_ASSIGN_OR_RETURN(run.metrics, metrics_from(arguments));
  NIBBLE_ASSIGN_OR_RETURN(run.telemetry_options, telemetry_from(arguments, run.target, notes));
  NIBBLE_RETURN_IF_ERROR(take_rest(arguments, run));
  NIBBLE_ASSIGN_OR_RETURN(flags.outputs, outputs_from(arguments));
  flags.progress = !arguments.has("--disable-tqdm");
  // What takes time comes last.
  NIBBLE_ASSIGN_OR_RETURN(flags.ledger, ledger_from(arguments, dataset.mean_context()));
  NIBBLE_ASSIGN_OR_RETURN(TokenizerChoice tokenizer, tokenizer_from(arguments, notes));
  NIBBLE_ASSIGN_OR_RETURN(run.setup, setup_from(arguments, run.target, dataset, tokenizer));
  run.setup.num_prompts = common_requests(run.levels);
  run.setup.notes = std::move(notes);
  run.tokenizer = std::move(tokenizer.tokenizer);
  NIBBLE_ASSIGN_OR_RETURN(run.make_dataset, dataset_maker(dataset, run.tokenizer, run.target));
  return flags;
}

}  // namespace nibble::cli
