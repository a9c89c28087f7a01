#include "cli/bench_model.h"

#include <algorithm>
#include <fmt/core.h>
#include <string>
#include <utility>

#include "base/progress.h"
#include "base/table.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/units.h"
#include "bench/perplexity.h"
#include "cli/embedded_model.h"
#include "cli/version.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostSequences = 1024;
constexpr std::int64_t kMostContext = 1 << 20;
// More would only wait for each other.
constexpr std::int64_t kMostThreadsEach = 4;

Result<engine::ModelOptions> model_options(const Arguments& arguments) {
  engine::ModelOptions options;
  if (const auto format = arguments.text("--activations")) {
    options.activations = format_from_string(*format).value();
  }
  if (const auto format = arguments.text("--kv-format")) {
    options.kv_format = format_from_string(*format).value();
  }
  if (const auto isa = arguments.text("--isa")) options.isa = isa_from_string(*isa).value();
  return options;
}

void print_json(const Json& body, const Arguments& arguments) {
  Json json = Json::object();
  json.set("schema", *body.find("schema")).set("version", version());
  json.set("command", join(arguments.command_line, " "));
  for (const Json::Member& member : body.as_object()) json.set(member.first, member.second);
  fmt::print("{}\n", json.dump());
}

Result<StepRequest> step_request(const Arguments& arguments) {
  StepRequest request;
  NIBBLE_ASSIGN_OR_RETURN(request.threads, bench_threads(arguments));
  NIBBLE_ASSIGN_OR_RETURN(request.options, model_options(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const auto sequences,
                          arguments.integers("--concurrency", 1, kMostSequences));
  if (sequences) request.sequences = *sequences;
  NIBBLE_ASSIGN_OR_RETURN(const auto context, arguments.integer("--context", 1, kMostContext));
  request.context = context.value_or(request.context);
  NIBBLE_ASSIGN_OR_RETURN(const auto seconds, arguments.number("--seconds", 0.01, 3600));
  request.seconds = seconds.value_or(request.seconds);
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  request.seed = static_cast<std::uint64_t>(seed.value_or(1));
  NIBBLE_ASSIGN_OR_RETURN(request.folder, model_folder(arguments));
  return request;
}

std::string time_cell(const std::optional<double>& us) {
  return us ? format_time_us(*us) : "-";
}

// One column of times and one of floors for each number of sequences.
std::string ops_table(const StepReport& report, const Style& style) {
  std::vector<Column> columns = {{"op"}, {"count", Align::kRight, 9}};
  for (std::size_t at = 0; at < report.levels.size(); ++at) {
    const int drop = static_cast<int>(at) + 1;
    columns.push_back({fmt::format("at {}", report.levels[at].sequences), Align::kRight, drop});
    columns.push_back({"floor", Align::kRight, drop});
  }
  Table table(std::move(columns));
  std::vector<std::string> names;
  for (const StepLevel& level : report.levels) {
    for (const StepOp& op : level.ops) {
      if (std::find(names.begin(), names.end(), op.name) == names.end()) names.push_back(op.name);
    }
  }
  for (const std::string& name : names) {
    std::vector<Cell> cells = {name, "-"};
    for (const StepLevel& level : report.levels) {
      const auto op = std::find_if(level.ops.begin(), level.ops.end(),
                                   [&](const StepOp& one) { return one.name == name; });
      const bool there = op != level.ops.end();
      if (there && op->count > 0) cells[1] = format_number(op->count, 3);
      cells.emplace_back(there ? time_cell(op->time_us) : "-");
      cells.emplace_back(there ? time_cell(op->floor_us) : "-");
    }
    table.row(std::move(cells));
  }
  table.rule();
  std::vector<Cell> sums = {"sum", "-"};
  for (const StepLevel& level : report.levels) {
    double time_us = 0;
    for (const StepOp& op : level.ops) time_us += op.time_us.value_or(0);
    sums.emplace_back(format_time_us(time_us));
    sums.emplace_back(format_time_us(level.floor_us));
  }
  table.row(std::move(sums));
  return table.render(style);
}

std::string levels_table(const StepReport& report, const Style& style) {
  Table table({{"sequences", Align::kRight},
               {"context", Align::kRight, 3},
               {"step", Align::kRight},
               {"+-", Align::kRight, 4},
               {"floor", Align::kRight},
               {"x floor", Align::kRight},
               {"tok/s", Align::kRight, 1},
               {"read", Align::kRight, 2}});
  for (const StepLevel& level : report.levels) {
    const double us = level.time_us.median;
    const auto& interval = level.time_us.interval;
    table.row({fmt::format("{}", level.sequences), fmt::format("{}", level.context),
               Cell(format_time_us(us), Emphasis::kStrong),
               interval ? format_share((interval->high - interval->low) / 2 / us) : "-",
               format_time_us(level.floor_us),
               Cell(fmt::format("{:.2f} x", 1 / level.share.median),
                    level.error.empty() ? Emphasis::kNone : Emphasis::kBad),
               format_number(static_cast<double>(level.sequences) / us * 1e6, 4),
               format_bytes(level.bytes)});
  }
  return table.render(style);
}

}  // namespace

std::string step_text(const StepReport& report, const Style& style) {
  const CpuRoofs& roofs = report.roofs.roofs;
  std::string text =
      fmt::format("{} on {}, {} {}: one decode step of the engine\n", report.model,
                  report.cpu.title, report.threads, report.threads == 1 ? "thread" : "threads");
  text += fmt::format("memory, read: {}; multiply, 16-bit activations: {}\n\n",
                      format_rate(roofs.read.value * kGiga, "B/s"),
                      format_rate(roofs.rates.at(Precision::kBf16).value * kTera, "op/s"));
  text += levels_table(report, style) + "\n";
  text +=
      "All layers together, by operation (a median each, so that they add up to about the step)\n";
  text += ops_table(report, style);
  for (const StepLevel& level : report.levels) {
    if (!level.error.empty()) {
      text += fmt::format("\nerror at {} sequences: {}\n", level.sequences, level.error);
    }
    for (const std::string& flag : level.flags) {
      text += fmt::format("\nat {} sequences: {}", level.sequences, flag);
    }
    if (!level.flags.empty()) text += "\n";
  }
  for (const std::string& note : report.notes) text += "\n" + note + "\n";
  return text;
}

std::vector<OptionDef> bench_model_options() {
  return {{.name = "--concurrency",
           .value = "LIST",
           .kind = ValueKind::kIntegerList,
           .help = "step: sequences that are decoded together",
           .default_text = "1,4,16"},
          {.name = "--context",
           .value = "TOKENS",
           .kind = ValueKind::kInteger,
           .help = "step: tokens of each sequence in the cache",
           .default_text = "128"},
          {.name = "--kv-format",
           .value = "FORMAT",
           .kind = ValueKind::kChoice,
           .help = "step, perplexity: keys and values in the cache",
           .default_text = "fp32",
           .choices = {"fp32", "bf16"}},
          {.name = "--text",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "perplexity: the text to foretell"},
          {.name = "--window",
           .value = "TOKENS",
           .kind = ValueKind::kInteger,
           .help = "perplexity: tokens that are scored together",
           .default_text = "the model's context less one, at most 2048"}};
}

Result<int> bench_threads(const Arguments& arguments) {
  const auto cores = static_cast<std::int64_t>(usable_processors().size());
  NIBBLE_ASSIGN_OR_RETURN(const auto threads, arguments.integer("--threads", 1));
  if (threads.value_or(1) > kMostThreadsEach * cores) {
    return usage_error("--threads is {}; give at most {}, {} for each of the {} processors",
                       *threads, kMostThreadsEach * cores, kMostThreadsEach, cores);
  }
  return static_cast<int>(threads.value_or(cores));
}

Result<int> run_bench_step(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(const StepRequest request, step_request(arguments));
  Progress progress("measuring", static_cast<double>(request.sequences.size()), stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(const StepReport report,
                          measure_step(request, [&](std::string_view now, double levels) {
                            progress.advance(levels - done);
                            done = levels;
                            progress.note(now);
                          }));
  if (arguments.has("--json")) {
    print_json(to_json(report), arguments);
  } else {
    fmt::print("{}", step_text(report, Style::for_stdout()));
  }
  return report.failed() ? 1 : 0;
}

Result<int> run_bench_perplexity(const Arguments& arguments) {
  PerplexityRequest request;
  const auto text = arguments.text("--text");
  if (!text) return usage_error("bench perplexity needs --text FILE, the text to foretell");
  request.text = *text;
  NIBBLE_ASSIGN_OR_RETURN(request.threads, bench_threads(arguments));
  NIBBLE_ASSIGN_OR_RETURN(request.options, model_options(arguments));
  NIBBLE_ASSIGN_OR_RETURN(const auto window, arguments.integer("--window", 1, kMostContext));
  request.window = window.value_or(0);
  NIBBLE_ASSIGN_OR_RETURN(request.folder, model_folder(arguments));
  Progress progress("scoring", 1, stderr, "");
  double done = 0;
  NIBBLE_ASSIGN_OR_RETURN(const Perplexity found, measure_perplexity(request, [&](double share) {
                            progress.advance(share - done);
                            done = share;
                          }));
  if (arguments.has("--json")) {
    print_json(to_json(request, found), arguments);
    return 0;
  }
  const auto bits = found.bits_per_character();
  fmt::print("{}perplexity {:.3f} per token\n",
             bits ? fmt::format("{:.4f} bits per character, ", *bits) : "", found.per_token());
  fmt::print(
      "{} tokens, {} characters, in windows of {} tokens, weights as stored x {} activations\n",
      format_count(static_cast<double>(found.tokens)),
      format_count(static_cast<double>(found.characters)),
      format_count(static_cast<double>(found.window)), to_string(request.options.activations));
  return 0;
}

}  // namespace nibble::cli
