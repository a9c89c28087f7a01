#include "cli/bench_link.h"

#include <fmt/core.h>

#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

constexpr const char* kSizes = "2KB..64MB";

Result<LinkRequest> link_request(const Arguments& arguments) {
  LinkRequest request;
  NIBBLE_ASSIGN_OR_RETURN(request.devices,
                          parse_link_devices(arguments.text("--on").value_or("all")));
  NIBBLE_ASSIGN_OR_RETURN(request.sizes,
                          parse_message_sizes(arguments.text("--sizes").value_or(kSizes)));
  NIBBLE_ASSIGN_OR_RETURN(const auto seconds, arguments.number("--seconds", 0.01, 3600));
  request.row_seconds = seconds.value_or(request.row_seconds);
  request.nccl = arguments.text("--nccl").value_or("");
  return request;
}

// What a reader of a machine file can type again: no paths of this machine.
std::string command_of(const Arguments& arguments) {
  std::string command = "nibble bench link";
  for (const char* option : {"--on", "--sizes"}) {
    if (const auto value = arguments.text(option)) command += fmt::format(" {} {}", option, *value);
  }
  return command;
}

Result<> save_machine(LinkReport& report, const std::string& path) {
  if (!report.machine_link) {
    return run_error("{} is not written: no link was measured ({})", path,
                     report.notes.empty() ? "see the curves" : report.notes.front());
  }
  if (!report.machine) {
    return input_error(
        "{} is not written: the catalog has no \"{}\"; put the links of --json into a machine file "
        "of your own",
        path, report.gpus.front().name);
  }
  NIBBLE_RETURN_IF_ERROR(write_file(path, to_json(*report.machine).dump() + "\n"));
  report.notes.push_back(
      fmt::format("{} has the machine with this link: nibble analyze --machine "
                  "{}",
                  path, path));
  return {};
}

void print_json(const LinkReport& report, const Arguments& arguments) {
  const Json body = to_json(report);
  Json json = Json::object();
  json.set("schema", *body.find("schema")).set("version", version());
  json.set("command", join(arguments.command_line, " "));
  for (const Json::Member& member : body.as_object()) json.set(member.first, member.second);
  fmt::print("{}\n", json.dump());
}

}  // namespace

std::vector<OptionDef> bench_link_options() {
  return {{.name = "--on",
           .value = "GPU",
           .kind = ValueKind::kText,
           .help = "roof, gemm, moe: a GPU, as cuda:0; link: several, as cuda:0,1, or all",
           .default_text = "the CPU; of link all GPUs"},
          {.name = "--sizes",
           .value = "LIST",
           .kind = ValueKind::kText,
           .help = "link: bytes of a message: 2KB..64MB (doubling; 1 KB is 1,024 B) or 4KB,1MB",
           .default_text = kSizes},
          {.name = "--nccl",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "link: NCCL's library",
           .default_text = "libnccl.so.2 where the loader finds it"},
          {.name = "--save-machine",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "link: write the catalog's machine with the measured link, for --machine FILE"}};
}

const std::vector<std::string>& bench_link_takes() {
  static const std::vector<std::string> list = {"--on",           "--sizes",   "--nccl",
                                                "--save-machine", "--seconds", "--json"};
  return list;
}

Result<int> run_bench_link(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const LinkRequest request, link_request(arguments));
  Progress progress("measuring", 1, stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(LinkReport report,
                          run_link(request, [&](std::string_view now, double share) {
                            progress.advance(share - done);
                            done = share;
                            progress.note(now);
                          }));
  conclude_link(report, command_of(arguments));
  Result<> saved;
  if (const auto path = arguments.text("--save-machine")) saved = save_machine(report, *path);
  // What was measured is shown in any case.
  if (!saved) report.notes.push_back(saved.error().message);
  if (arguments.has("--json")) {
    print_json(report, arguments);
  } else {
    fmt::print("{}", link_text(report, Style::for_stdout()));
  }
  return report.failed() || !saved ? 1 : 0;
}

}  // namespace nibble::cli
