#include "cli/mock.h"

#include <fmt/core.h>

#include "base/units.h"
#include "cli/end_signal.h"
#include "mock/mock.h"
#include "net/loop.h"

namespace nibble::cli {
namespace {

using mock::Distribution;
using mock::MockScript;

constexpr std::int64_t kMostStreams = 100'000;

// A number of the script that may be drawn from a distribution, by its flag.
Result<> take_distribution(const Arguments& arguments, std::string_view flag, Distribution& target,
                           mock::DistributionRange range) {
  const auto given = arguments.text(flag);
  if (!given) return {};
  auto read = mock::parse_distribution(*given, range);
  if (!read) return usage_error("{} {}", flag, read.error().message);
  target = std::move(*read);
  return {};
}

Result<> take_times(const Arguments& arguments, MockScript& script) {
  for (const char* flag : {"--ttft-ms", "--itl-ms", "--tokens-per-chunk"}) {
    if (!script.steps || !arguments.text(flag)) continue;
    return usage_error("{} contradicts the script, whose \"steps\" make all times; leave it out",
                       flag);
  }
  const mock::DistributionRange times{0, mock::kMostMs};
  const mock::DistributionRange tokens{1, mock::kMostTokens};
  NIBBLE_RETURN_IF_ERROR(take_distribution(arguments, "--ttft-ms", script.ttft_ms, times));
  NIBBLE_RETURN_IF_ERROR(take_distribution(arguments, "--itl-ms", script.itl_ms, times));
  NIBBLE_RETURN_IF_ERROR(
      take_distribution(arguments, "--tokens-per-chunk", script.tokens_per_chunk, tokens));
  return take_distribution(arguments, "--output-tokens", script.output_tokens, tokens);
}

std::string summary(const mock::MockStats& stats) {
  const mock::ErrorSnapshot& error = stats.error;
  auto time = [](Nanoseconds span) { return format_time_us(static_cast<double>(span) * 1e-3); };
  std::string text = fmt::format("served {} requests, {} tokens",
                                 format_count(static_cast<double>(stats.requests)),
                                 format_count(static_cast<double>(stats.generation_tokens)));
  if (error.count == 0) return text;
  return text + fmt::format("; off its due times by {} (median), {} (p99), {} (late at most)",
                            time(error.p50), time(error.p99), time(error.late_max));
}

Result<int> execute_mock(const Arguments& arguments) {
  if (arguments.has("--json")) {
    NIBBLE_ASSIGN_OR_RETURN(const MockScript script, script_from_arguments(arguments));
    fmt::print("{}\n", to_json(script).dump());
    return 0;
  }
  NIBBLE_ASSIGN_OR_RETURN(MockScript script, script_from_arguments(arguments));
  mock::MockOptions options;
  NIBBLE_ASSIGN_OR_RETURN(const auto port, arguments.integer("--port", 0, 65535));
  NIBBLE_ASSIGN_OR_RETURN(const auto threads, arguments.integer("--threads", 1, 64));
  options.host = arguments.text("--host").value_or(options.host);
  options.port = static_cast<int>(port.value_or(8000));
  options.threads = static_cast<std::size_t>(threads.value_or(1));
  options.truth_file = arguments.text("--truth").value_or("");
  options.certificate_file = arguments.text("--tls-certificate").value_or("");
  options.key_file = arguments.text("--tls-key").value_or("");
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return usage_error("--tls-certificate and --tls-key stand together; give both");
  }
  // As many as there may be; fewer are enough for most, so that a refusal is no failure.
  static_cast<void>(net::allow_descriptors(kMostStreams));
  const EndSignal signal;  // before any thread starts
  NIBBLE_ASSIGN_OR_RETURN(mock::RunningMock running, start_mock(std::move(script), options));
  fmt::print("nibble mock listens on {}\n", running.url());
  std::fflush(stdout);
  signal.wait();
  const mock::MockStats stats = running.stats();
  NIBBLE_RETURN_IF_ERROR(running.stop());
  fmt::print("{}\n", summary(stats));
  return 0;
}

std::vector<OptionDef> server_options() {
  return {{.name = "--port",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "where to listen; 0: any port that is free",
           .default_text = "8000"},
          {.name = "--host",
           .value = "ADDRESS",
           .help = "the address to listen on; 0.0.0.0: all of this machine",
           .default_text = "127.0.0.1"},
          {.name = "--threads",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "event loops; one serves some 60,000 tokens a second",
           .default_text = "1"},
          {.name = "--truth",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "write when each token was due and sent, a line of JSON an answer"},
          {.name = "--tls-certificate",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "speak https with this certificate (PEM)"},
          {.name = "--tls-key",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "the key of the certificate (PEM)"}};
}

std::vector<OptionDef> script_options() {
  const auto number = [](const char* name, const char* help, const char* by_default) {
    return OptionDef{.name = name,
                     .value = "NUMBER",
                     .help = help,
                     .default_text = by_default,
                     .group = "The script"};
  };
  return {{.name = "--script",
           .value = "FILE",
           .kind = ValueKind::kFile,
           .help = "all that can be scripted (nibble.mock/1); the flags below win over it",
           .group = "The script"},
          number("--ttft-ms",
                 "time to the first token: 50, uniform:40..60, normal:50,5, "
                 "lognormal:50,5, gamma:50,5, exponential:50 or list:50,60",
                 "50"),
          number("--itl-ms", "time between tokens, in the same forms", "10"),
          number("--tokens-per-chunk", "tokens of each chunk after the first", "1"),
          number("--output-tokens", "length of answers whose request names none", "128"),
          {.name = "--capacity",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "requests that run at once, the others wait; 0: all run",
           .default_text = "0",
           .group = "The script"},
          {.name = "--model",
           .value = "NAME",
           .help = "the name of the model",
           .default_text = "nibble-mock",
           .group = "The script"},
          {.name = "--seed",
           .value = "N",
           .kind = ValueKind::kInteger,
           .help = "of all that is drawn",
           .default_text = "1",
           .group = "The script"},
          {.name = "--metrics-style",
           .value = "NAME",
           .kind = ValueKind::kChoice,
           .help = "whose page /metrics shows",
           .default_text = "vllm",
           .choices = {"vllm", "sglang", "llamacpp", "llamacpp_quoted", "none"},
           .group = "The script"}};
}

}  // namespace

Result<MockScript> script_from_arguments(const Arguments& arguments) {
  MockScript script;
  if (const auto path = arguments.text("--script")) {
    NIBBLE_ASSIGN_OR_RETURN(script, mock::load_script(*path));
  }
  NIBBLE_RETURN_IF_ERROR(take_times(arguments, script));
  NIBBLE_ASSIGN_OR_RETURN(const auto capacity, arguments.integer("--capacity", 0, 1'000'000'000));
  NIBBLE_ASSIGN_OR_RETURN(const auto seed, arguments.integer("--seed", 0));
  if (capacity) script.capacity = *capacity;
  if (seed) script.seed = static_cast<std::uint64_t>(*seed);
  script.model = arguments.text("--model").value_or(script.model);
  if (const auto style = arguments.text("--metrics-style")) {
    script.metrics_style = mock::metrics_style_from_string(*style).value();
  }
  // A name from the command line obeys the rules of a file's.
  return mock::parse_script(to_json(script), "the command line");
}

CommandDef mock_command() {
  std::vector<OptionDef> options = server_options();
  for (OptionDef& option : script_options()) options.push_back(std::move(option));
  return {.name = "mock",
          .summary = "a scripted OpenAI-compatible server whose times are known",
          .description =
              "Serves /v1/completions, /v1/chat/completions, /generate (SGLang) and /completion "
              "(llama.cpp) with answers whose every token has a known due time: to test load tests "
              "and clients, and to measure their own error. Times, queue, load curve, forms of the "
              "stream and faults are scripted (docs/mock.md); --json prints the whole script that "
              "the flags make, and serves nothing.\n\n"
              "The address is printed once the server takes requests. Ctrl-C ends it and prints "
              "what was served, and how exactly.",
          .options = std::move(options),
          .examples = {{"nibble mock --ttft-ms 50 --itl-ms 10", "constant times on port 8000"},
                       {"nibble mock --port 0 --itl-ms gamma:10,5 --capacity 32",
                        "any port, times that vary, at most 32 running"},
                       {"nibble mock --script faults.json --truth truth.jsonl",
                        "a script, and what it did"}},
          .run = execute_mock};
}

}  // namespace nibble::cli
