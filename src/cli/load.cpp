#include "cli/load.h"

#include <algorithm>
#include <fmt/core.h>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "cli/load_flags.h"
#include "cli/load_outputs.h"
#include "cli/load_run.h"
#include "load/record_json.h"
#include "load/row_file.h"

namespace nibble::cli {
namespace {

void print_report(const load::RunReport& report, const std::vector<std::string>& written) {
  const Style style = Style::for_stdout();
  const std::vector<std::string> said = load::sentences(report);
  if (report.levels.size() == 1) {
    fmt::print("{}", load::level_table(report.levels.front()).render(style));
  } else if (!report.levels.empty()) {
    fmt::print("{}", load::sweep_table(report).render(style));
  }
  if (!said.empty()) fmt::print("\n");
  for (const std::string& sentence : said) fmt::print("- {}\n", style.wrap(sentence, 2));
  if (!written.empty()) fmt::print("\nWritten: {}\n", join(written, ", "));
}

// Why the first request failed that did: one of them stands for all.
std::string first_failure(const std::filesystem::path& rows) {
  std::string found;
  static_cast<void>(load::for_each_row(rows, [&](const load::RequestRecord& record) -> Result<> {
    if (record.warmup || record.outcome == load::Outcome::kOk) return {};
    found = fmt::format("{}: {}", load::to_string(record.outcome), printable(record.message, 300));
    return run_error("found");  // ends the reading
  }));
  return found;
}

// What makes a run that has been reported a failure.
std::optional<Error> verdict(const drive::RunOutcome& outcome, const std::filesystem::path& rows) {
  if (outcome.ended_early) return Error{ErrorKind::kRun, outcome.ended_early->message};
  const auto& levels = outcome.report.levels;
  const bool any = std::any_of(levels.begin(), levels.end(), [](const load::LevelResult& level) {
    return level.report.all.counts.ok > 0;
  });
  if (any) return std::nullopt;
  const std::string why = first_failure(rows);
  return run_error("no request succeeded{}", why.empty() ? "" : "; the first failure: " + why);
}

Result<int> finish(const LoadFlags& flags, const drive::RunOutcome& outcome, RowsFile& rows,
                   bool json) {
  std::vector<std::string> written;
  const Result<> kept = write_outputs(flags.outputs, outcome.report, rows.path(), written);
  if (json) {
    fmt::print("{}\n", load::to_json(outcome.report).dump());
  } else {
    print_report(outcome.report, written);
  }
  if (!kept.ok()) {
    rows.keep();
    return run_error("{}; the rows of the run are in {}", kept.error().message,
                     rows.path().string());
  }
  if (const std::optional<Error> error = verdict(outcome, rows.path())) return *error;
  return 0;
}

Result<int> execute_load(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(LoadFlags flags, load_flags_from(arguments));
  NIBBLE_RETURN_IF_ERROR(check_outputs(flags.outputs));
  NIBBLE_ASSIGN_OR_RETURN(RowsFile rows, RowsFile::make(flags.outputs));
  flags.run.rows = rows.path();
  const Result<drive::RunOutcome> outcome = run_load(flags);
  if (!outcome.ok()) return outcome.error();
  return finish(flags, *outcome, rows, arguments.has("--json"));
}

}  // namespace

std::string progress_text(const drive::Progress& progress) {
  std::string text;
  if (progress.levels > 1) text = fmt::format("level {}/{}  ", progress.level + 1, progress.levels);
  if (progress.users > 0) text += fmt::format("{} users  ", progress.users);
  text += progress.phase;
  if (progress.done == 0 && progress.in_flight == 0) return text;
  text += progress.requests > 0 ? fmt::format("  {}/{} done", progress.done, progress.requests)
                                : fmt::format("  {} done", progress.done);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  text += fmt::format("  {} in flight", progress.in_flight);
  return text + fmt::format("  {} tok/s", format_number(progress.tokens_per_s, 3));
}

std::string level_text(const load::LevelResult& level, std::size_t number, std::size_t levels) {
  const load::LevelMetrics& metrics = level.report.all;
  std::string text = fmt::format("level {}/{}", number, levels);
  if (const auto users = level.report.plan.max_concurrency) {
    text += fmt::format("  {:.0f} users", *users);
  }
  if (const auto rate = level.report.plan.request_rate) text += fmt::format("  {:g} req/s", *rate);
  text += fmt::format("  {} ok", metrics.counts.ok);
  if (metrics.counts.failed > 0) text += fmt::format(", {} failed", metrics.counts.failed);
  if (metrics.output_throughput) {
    text += fmt::format("  {} tok/s", format_number(*metrics.output_throughput));
  }
  const auto add = [&](const char* name, load::Metric metric) {
    const load::Summary& summary = metrics[metric];
    if (summary.empty()) return;
    text += fmt::format("  {} {}", name, format_time_us(summary.mean * 1e3));
  };
  add("TTFT", load::Metric::kTtft);
  add("TPOT", load::Metric::kTpot);
  if (!level.report.incomplete.empty()) text += "  incomplete";
  return text;
}

CommandDef load_command() {
  return {
      .name = "load",
      .summary = "a load test of an inference server that knows its own error",
      .description =
          "Sends requests to an OpenAI-compatible server, SGLang's /generate or llama.cpp's "
          "/completion, and says what came when: TTFT, TPOT, ITL, throughput, goodput, with "
          "intervals, and beside them power, clocks, activity of the GPU and the server's own "
          "counts. With every level stands what the client itself may have added.\n\n"
          "--max-concurrency with a list is a sweep of closed loops; --request-rate is an open "
          "loop, which sends whatever the server does. From three levels on the knee is named, and "
          "with --gpu the ledger's floor stands beside the fit. A level ends after --num-prompts "
          "requests or --duration, or with neither when its token rate is known to 2 %.\n\n"
          "Names and defaults are those of vLLM's and SGLang's benchmarks; where those disagree, "
          "--backend decides, and a sentence says so. ignore_eos is on. Ctrl-C, a server that dies "
          "and a full disk end the run with status 1; what was measured is kept and marked. Keys "
          "and header values are never written anywhere.",
      .options = load_command_options(),
      .examples =
          {{"nibble load --base-url http://127.0.0.1:8000 --random-input-len 1024 "
            "--random-output-len 128 --max-concurrency 1..64",
            "a sweep; each level ends when its rate is known"},
           {"nibble load --backend sglang --request-rate 2,4,8 --duration 60 --goodput ttft:500 "
            "tpot:50",
            "open loops, and how many requests were good"},
           {"nibble load --model glm-5-nvfp4 --gpu h200 --tp 8 --max-concurrency 1,8,64 --report "
            "out",
            "with the physical fit, and a report"},
           {"nibble load --dataset-name custom --dataset-path prompts.jsonl --num-prompts 500 "
            "--save-result --result-dir results",
            "a file's prompts all at once, as vLLM's benchmark sends them"}},
      .run = execute_load};
}

}  // namespace nibble::cli
