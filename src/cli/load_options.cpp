// The options of `nibble load`, one line each.
#include "cli/deployment_flags.h"
#include "cli/load_flags.h"

namespace nibble::cli {
namespace {

constexpr ValueKind kSwitch = ValueKind::kNone;
constexpr ValueKind kText = ValueKind::kText;
constexpr ValueKind kInteger = ValueKind::kInteger;
constexpr ValueKind kNumber = ValueKind::kNumber;
constexpr ValueKind kList = ValueKind::kIntegerList;
constexpr ValueKind kFile = ValueKind::kFile;
constexpr ValueKind kDirectory = ValueKind::kDirectory;

struct Row {
  const char* name;
  const char* value;  // empty: a switch
  ValueKind kind;
  const char* help;
  const char* by_default = "";
  std::vector<std::string> aliases = {};
};

OptionDef option(const Row& row, const char* group) {
  return {.name = row.name,
          .aliases = row.aliases,
          .value = row.value,
          .kind = row.kind,
          .help = row.help,
          .default_text = row.by_default,
          .group = group};
}

std::vector<Row> server_rows() {
  return {
      {"--base-url", "URL", kText, "the server, as http://host:port", "http://127.0.0.1:8000"},
      {"--host", "NAME", kText, "instead of --base-url, with --port", "127.0.0.1"},
      {"--port", "N", kInteger, "of --host", "8000; of sglang 30000, of llamacpp 8080"},
      {"--backend",
       "NAME",
       kText,
       "what the server speaks: openai, openai-chat, vllm, vllm-chat, sglang, sglang-oai, "
       "sglang-oai-chat, llamacpp, lmdeploy, lmdeploy-chat, tensorrt-llm",
       "openai",
       {"--endpoint-type"}},
      {"--endpoint", "PATH", kText, "below the URL", "the backend's, as /v1/completions"},
      {"--model", "NAME|FILE|DIR", ValueKind::kModel,
       "name to ask for; a folder's tokenizer.json counts tokens, and with --gpu its config.json "
       "gives the physical fit",
       "the first of /v1/models"},
      {"--served-model-name", "NAME", kText, "name to ask for when --model is a folder or file"},
      {"--tokenizer", "FILE|DIR|ID", kFile,
       "tokenizer.json, or ORG/NAME in the Hub cache: counts where the server does not",
       "--model when it is such a folder"},
      {"--header", "NAME=VALUE", kText, "also NAME:VALUE; sent with every request, never kept"},
      {"--api-key-env", "VARIABLE", kText, "environment variable that holds the key",
       "OPENAI_API_KEY when it is set"},
      {"--api-key-file", "FILE", kFile, "file that holds the key"},
      {"--insecure", "", kSwitch, "do not verify the server's certificate"},
      {"--ca-file", "FILE", kFile, "authorities to trust (PEM)", "the system's"},
      {"--ready-check-timeout-sec", "S", kNumber, "wait so long for the server", "0"},
      {"--timeout-connect", "S", kNumber, "name, TCP and TLS; 0: none", "10"},
      {"--timeout-first-byte", "S", kNumber, "from sending to the first byte; 0: none", "600"},
      {"--timeout-idle", "S", kNumber, "between two reads of an answer; 0: none", "300"},
      {"--timeout-total", "S", kNumber, "of a whole request; 0: none", "0"},
  };
}

std::vector<Row> request_rows() {
  return {
      {"--ignore-eos", "", kSwitch, "answers have the length asked for (the default)"},
      {"--disable-ignore-eos", "", kSwitch, "answers end where the model ends them"},
      {"--disable-stream", "", kSwitch, "ask for whole answers: no times of tokens"},
      {"--no-token-ids", "", kSwitch, "send prompts as text even where token ids are taken"},
      {"--temperature", "T", kText, "a number, or \"server\": leave it to the server", "0"},
      {"--top-p", "P", kNumber, "nucleus sampling", "the server's"},
      {"--top-k", "K", kInteger, "sampling among the K likeliest", "the server's"},
      {"--min-p", "P", kNumber, "least probability over the greatest", "the server's"},
      {"--frequency-penalty", "F", kNumber, "-2 to 2", "the server's"},
      {"--presence-penalty", "F", kNumber, "-2 to 2", "the server's"},
      {"--repetition-penalty", "F", kNumber, "above 0", "the server's"},
      {"--extra-body",
       "JSON",
       kText,
       "object whose members are merged into every request, and win",
       "",
       {"--extra-request-body"}},
  };
}

std::vector<Row> dataset_rows() {
  return {
      {"--dataset-path", "FILE", kFile, "of sharegpt (JSON) and custom (JSONL)"},
      {"--random-input-len", "N", kInteger, "tokens of a prompt", "1024", {"--random-input"}},
      {"--random-output-len",
       "N",
       kInteger,
       "tokens of an answer",
       "128; with sglang 1024",
       {"--random-output"}},
      {"--random-range-ratio", "R", kNumber,
       "lengths from len (1 - R) to len (1 + R); with sglang from len R to len", "0"},
      {"--random-prefix-len", "N", kInteger, "tokens before the prompt, the same in all", "0"},
      {"--input-len", "N", kInteger, "the dataset's own length of prompts by a general name"},
      {"--output-len", "N", kInteger, "the dataset's own length of answers by a general name"},
      {"--sharegpt-output-len", "N", kInteger, "tokens of an answer", "as long as the file's"},
      {"--custom-output-len", "N", kInteger, "tokens of an answer; -1: the file's",
       "the file's, else 256"},
      {"--no-oversample", "", kSwitch, "end where a file's prompts end, instead of repeating them"},
      {"--gsp-num-groups", "N", kInteger, "groups that share a system prompt", "64"},
      {"--gsp-prompts-per-group", "N", kInteger, "prompts of a group", "16"},
      {"--gsp-system-prompt-len", "N", kInteger, "tokens of a system prompt", "2048"},
      {"--gsp-question-len", "N", kInteger, "tokens of a question", "128"},
      {"--gsp-output-len", "N", kInteger, "tokens of an answer", "256"},
      {"--seed", "N", kInteger, "of lengths, orders and arrivals", "0"},
  };
}

std::vector<Row> load_rows() {
  return {
      {"--max-concurrency", "LIST", kList,
       "requests under way at once: a level for each of 1,2,4,8 or 1..64 (powers of two)"},
      {"--request-rate", "LIST", kText,
       "requests a second whatever the server does: a number, inf, or a level for each of a list"},
      {"--num-prompts",
       "LIST",
       kList,
       "requests of a level; a list has one for each level. With neither this nor --duration a "
       "level ends when its token rate is known to 2 %",
       "",
       {"--num-prompt"}},
      {"--duration", "S", kNumber,
       "of a level; with --num-prompts, whichever is reached first ends it"},
      {"--longest-level", "S", kNumber, "of a level that ends by its token rate", "60"},
      {"--grace", "S", kNumber, "for requests under way when the time is over", "30"},
      {"--ramp", "S", kNumber, "users of a closed loop start over this time", "0"},
      {"--num-warmups",
       "N",
       kInteger,
       "requests before each level that do not count",
       "1",
       {"--warmup-requests"}},
      {"--burstiness", "F", kNumber, "shape of the gaps: 1 Poisson, less burstier, more even", "1"},
      {"--constant-rate", "", kSwitch, "even gaps"},
      {"--trace", "FILE", kFile, "send at recorded times: seconds, or Mooncake's JSONL"},
      {"--trace-speed", "F", kNumber, "2: twice as fast", "1"},
      {"--ramp-up-start-rps", "R", kNumber, "rate at the first request"},
      {"--ramp-up-end-rps", "R", kNumber, "rate at the last request"},
      {"--flush-cache", "", kSwitch, "POST /flush_cache before each level (SGLang)"},
      {"--loops", "N", kInteger, "threads that send", "by the number of streams"},
  };
}

std::vector<Row> result_rows() {
  return {
      {"--metric-percentiles", "LIST", kText, "further ones beside 50, 90, 95 and 99"},
      {"--save-result", "", kSwitch, "a JSON file a level, by vLLM's names"},
      {"--save-detailed", "", kSwitch, "with the times of every request"},
      {"--append-result", "", kSwitch, "append each level as a line of the result file"},
      {"--result-dir", "DIR", kDirectory, "where the result files go", "this folder"},
      {"--result-filename", "FILE", kFile,
       "instead of a name of label, rate, users, model and date"},
      {"--label", "TEXT", kText, "kept with the result", "", {"--tag"}},
      {"--output-file", "FILE", kFile, "append a line of JSON a level, as SGLang's benchmark"},
      {"--output-details", "", kSwitch, "with the times of every request"},
      {"--csv", "FILE", kFile, "a line a level"},
      {"--rows", "FILE", kFile, "keep the rows: a line of JSON a request"},
      {"--report", "DIR", kDirectory, "write report.html, report.md and report.json there"},
  };
}

std::vector<Row> signal_rows() {
  return {
      {"--no-telemetry", "", kSwitch, "sample nothing"},
      {"--no-gpu", "", kSwitch, "leave NVML alone"},
      {"--no-server-metrics", "", kSwitch, "leave the server's metrics page alone"},
  };
}

std::vector<Row> foreign_rows() {
  return {
      {"--percentile-metrics", "LIST", kText, "accepted: every metric has its percentiles"},
      {"--trust-remote-code", "", kSwitch, "accepted: no model's code is run"},
      {"--tokenizer-mode", "MODE", kText, "accepted: tokenizer.json is read as it is"},
      {"--request-id-prefix", "TEXT", kText, "accepted: no request ids are sent"},
      {"--cache-report", "", kSwitch, "accepted: cached tokens are reported where told"},
      {"--tokenize-prompt", "", kSwitch, "accepted: token ids are sent where taken"},
      {"--disable-tqdm", "", kSwitch, "no line of progress on a terminal"},
      {"--profile", "", kSwitch, "refused: start the server's profiler yourself"},
      {"--use-beam-search", "", kSwitch, "refused: beams have no times of tokens"},
      {"--logprobs", "N", kInteger, "refused: ask by --extra-body"},
      {"--apply-chat-template", "", kSwitch, "refused: a chat backend's server applies it"},
      {"--plot-timeline", "", kSwitch, "refused: --report draws"},
  };
}

OptionDef repeated(const char* name, const char* value, const char* help, const char* group) {
  return {.name = name, .value = value, .help = help, .several = true, .group = group};
}

OptionDef choice(const char* name, std::vector<std::string> choices, const char* help,
                 const char* by_default, const char* group) {
  return {.name = name,
          .value = "NAME",
          .kind = ValueKind::kChoice,
          .help = help,
          .default_text = by_default,
          .choices = std::move(choices),
          .group = group};
}

// The deployment as `nibble analyze` takes it, and the model's configuration by a name of its own.
std::vector<OptionDef> fit_options() {
  constexpr const char* kGroup = kFitOptions;
  std::vector<OptionDef> options = {{.name = "--model-config",
                                     .value = "NAME|FILE|DIR",
                                     .kind = ValueKind::kModel,
                                     .help = "what is served: catalog name, config.json or folder",
                                     .default_text = "--model",
                                     .group = kGroup}};
  for (OptionDef& option : deployment_options()) {
    if (option.name == "--model") continue;
    if (option.name == "--context") option.default_text = "of the prompts";
    option.group = kGroup;
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace

std::vector<OptionDef> load_command_options() {
  constexpr const char* kServer = "The server";
  constexpr const char* kRequests = "Requests";
  constexpr const char* kPrompts = "Prompts";
  constexpr const char* kLoad = "The load";
  constexpr const char* kResults = "Results";
  constexpr const char* kSignals = "Signals beside it";
  std::vector<OptionDef> options;
  const auto add = [&options](const std::vector<Row>& rows, const char* group) {
    for (const Row& row : rows) {
      options.push_back(option(row, group));
      if (options.back().name == "--header") options.back().several = true;
    }
  };
  add(server_rows(), kServer);
  add(request_rows(), kRequests);
  options.push_back(choice(
      "--dataset-name",
      {"random", "random-ids", "sharegpt", "custom", "generated-shared-prefix", "shared-prefix"},
      "where prompts come from", "random", kPrompts));
  add(dataset_rows(), kPrompts);
  add(load_rows(), kLoad);
  options.push_back(choice("--ramp-up-strategy", {"linear", "exponential"},
                           "the rate changes over the requests of a level", "", kLoad));
  options.push_back(choice("--self-audit", {"off", "cached", "fresh"},
                           "the client's own error, measured against the built-in mock", "cached",
                           kLoad));
  add(result_rows(), kResults);
  options.push_back(repeated("--goodput", "METRIC:MS",
                             "limits of a good request: ttft, tpot, itl, e2el", kResults));
  options.push_back(repeated("--metadata", "KEY=VALUE", "kept with the result", kResults));
  options.push_back(repeated("--telemetry", "HOST:PORT,...",
                             "join the samples of `nibble watch --listen` there", kSignals));
  options.push_back(repeated("--server-metrics", "URL,...",
                             "servers whose metrics to read, instead of --base-url", kSignals));
  add(signal_rows(), kSignals);
  for (OptionDef& option : fit_options()) options.push_back(std::move(option));
  add(foreign_rows(), "Names of other benchmarks");
  return options;
}

}  // namespace nibble::cli
