#include "cli/diagnose_options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/load_flags.h"

namespace nibble::cli {
namespace {

// Of `nibble load`: files that it writes, and what has another meaning here.
constexpr std::array kNotTaken = {"--save-result",
                                  "--save-detailed",
                                  "--append-result",
                                  "--result-dir",
                                  "--result-filename",
                                  "--output-file",
                                  "--output-details",
                                  "--csv",
                                  "--rows",
                                  "--report",
                                  "--trace",
                                  "--trace-speed",
                                  "--ramp-up-start-rps",
                                  "--ramp-up-end-rps",
                                  "--ramp-up-strategy",
                                  "--metadata",
                                  "--label",
                                  "--goodput"};

constexpr std::string_view kForeign = "Names of other benchmarks";

bool is_taken(const OptionDef& option) {
  return option.group != kForeign &&
         std::find(kNotTaken.begin(), kNotTaken.end(), option.name) == kNotTaken.end();
}

std::vector<OptionDef> own_options() {
  constexpr const char* kWhat = "What is diagnosed";
  return {
      {.name = "--case",
       .value = "NAME|FILE",
       .kind = ValueKind::kCase,
       .help = "recorded numbers (nibble.case/1): nothing is measured",
       .group = kWhat},
      {.name = "--from",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "what was measured before: the --json of load, bench or watch --jsonl, a trace's "
               "summary",
       .several = true,
       .group = kWhat},
      {.name = "--trace",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "a profile of the server: torch-profiler's Chrome trace, or nsys export --type "
               "sqlite",
       .group = kWhat},
      {.name = "--trace-map",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "which kernels belong to which operation, instead of the built-in list",
       .group = kWhat},
      {.name = "--on",
       .value = "cuda:N",
       .help = "time roofs and the kernels of a rank's step on this GPU, beside --from, --case or "
               "--server, or alone; --model says whose kernels, but for a case",
       .default_text = "cpu",
       .group = kWhat},
      {.name = "--serve-option",
       .value = "WORD",
       .help = "a word for the server that is started where none is named, as "
               "--serve-option=--kv-format=bf16",
       .repeatable = true,
       .group = kWhat},
      {.name = "--experiment",
       .help = "try what would settle the first verdict, where nibble can, and say what came out",
       .group = kWhat},
      {.name = "--diff",
       .value = "FILE",
       .kind = ValueKind::kFile,
       .help = "compare two diagnoses (--json): --diff BEFORE AFTER; nothing else is done",
       .several = true,
       .group = "The result"},
      {.name = "--report",
       .value = "DIR",
       .kind = ValueKind::kDirectory,
       .help = "write report.html, report.md and report.json there",
       .group = "The result"},
      {.name = "--show-hosts",
       .help = "do not redact host names and folders",
       .group = "The result"},
  };
}

}  // namespace

std::vector<OptionDef> diagnose_options() {
  std::vector<OptionDef> options = own_options();
  for (OptionDef& option : load_command_options()) {
    if (!is_taken(option)) continue;
    if (option.name == "--base-url") {
      option.aliases.emplace_back("--server");
      option.default_text = "a server of our own, with the model that is built in";
    }
    if (option.name == "--host" || option.name == "--port") option.default_text.clear();
    options.push_back(std::move(option));
  }
  return options;
}

bool loads_a_server(const OptionDef& option) {
  if (option.name == "--serve-option") return true;
  const auto of_load = load_command_options();
  return option.name != "--model" &&
         std::any_of(of_load.begin(), of_load.end(), [&option](const OptionDef& one) {
           return one.name == option.name && one.name != "--report" && one.name != "--trace" &&
                  one.group != kFitOptions;
         });
}

Arguments load_arguments(const Arguments& arguments) {
  Arguments load = arguments;
  for (const OptionDef& option : own_options()) load.given.erase(option.name);
  return load;
}

}  // namespace nibble::cli
