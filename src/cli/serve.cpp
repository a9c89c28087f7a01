#include "cli/serve.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/core.h>
#include <future>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "cli/embedded_model.h"
#include "cli/end_signal.h"
#include "cli/serve_tuning.h"
#include "cli/version.h"
#include "engine/models/load.h"
#include "machine/isa.h"
#include "machine/probe.h"
#include "net/loop.h"
#include "serve/faults.h"
#include "serve/model_folder.h"
#include "serve/server.h"

namespace nibble::cli {
namespace {

constexpr std::int64_t kMostFlagCount = 1'000'000;
constexpr std::size_t kMostConnections = 100'000;
constexpr std::size_t kMostApiKeyBytes = 4096;
constexpr Nanoseconds kSignalGlance = 50'000'000;
constexpr double kGigabyte = 1e9;
constexpr auto kLongestStep = std::chrono::seconds(8);
constexpr auto kPatienceOfClients = std::chrono::seconds(2);  // beside a step that does not end

struct ServeFlags {
  std::filesystem::path model;
  std::string served_name;  // empty: the folder's
  serve::GenerationConfig generation_config = serve::GenerationConfig::kAuto;
  engine::EngineOptions engine;
  engine::ModelOptions load;
  serve::ServeOptions server;
  std::optional<double> kv_cache_gb;
  std::optional<std::string> tuning_file;
};

Nanoseconds nanoseconds_of(double span) {
  return static_cast<Nanoseconds>(span * 1e9);
}

Result<> take_engine(const Arguments& arguments, engine::EngineOptions& options) {
  struct Count {
    const char* flag;
    std::int64_t& value;
  };
  const Count counts[] = {{"--max-running-requests", options.max_running_requests},
                          {"--max-num-batched-tokens", options.max_num_batched_tokens},
                          {"--max-queued-requests", options.max_queued_requests},
                          {"--max-model-len", options.max_model_len},
                          {"--kv-blocks", options.kv_blocks},
                          {"--block-tokens", options.block_tokens}};
  for (const Count& count : counts) {
    NIBBLE_ASSIGN_OR_RETURN(const auto given,
                            arguments.integer(count.flag, 1, kMostFlagCount * 100));
    if (given) count.value = *given;
  }
  NIBBLE_ASSIGN_OR_RETURN(const auto threads, arguments.integer("--threads", 1, 1024));
  options.threads = static_cast<int>(threads.value_or(0));
  options.prefix_caching = !arguments.has("--no-prefix-caching");
  return {};
}

Result<std::string> key_from(const Arguments& arguments) {
  const auto file = arguments.text("--api-key-file");
  const auto variable = arguments.text("--api-key-env");
  if (file && variable) {
    return usage_error("--api-key-file and --api-key-env both name the key; give one");
  }
  std::string key;
  std::string where;
  if (file) {
    where = fmt::format("--api-key-file {}", printable(*file));
    NIBBLE_ASSIGN_OR_RETURN(key, read_file(*file, kMostApiKeyBytes));
  } else if (variable) {
    where = fmt::format("--api-key-env {}", printable(*variable));
    if (const char* value = std::getenv(variable->c_str())) key = value;
  } else {
    return key;
  }
  key = trim(key);
  if (key.empty()) return input_error("{} holds no key; write the key into it", where);
  const auto is_printable = [](char byte) { return byte > ' ' && byte <= '~'; };
  if (!std::all_of(key.begin(), key.end(), is_printable)) {
    return input_error(
        "{} holds white space within the key, or characters that no request can carry; give one "
        "word "
        "of printable ASCII",
        where);
  }
  return key;
}

Result<> take_server(const Arguments& arguments, serve::ServeOptions& options) {
  options.host = arguments.text("--host").value_or(options.host);
  NIBBLE_ASSIGN_OR_RETURN(const auto port, arguments.integer("--port", 0, 65535));
  options.port = static_cast<int>(port.value_or(8000));
  NIBBLE_ASSIGN_OR_RETURN(const auto loops, arguments.integer("--http-threads", 1, 64));
  options.threads = static_cast<std::size_t>(loops.value_or(1));
  NIBBLE_ASSIGN_OR_RETURN(options.api_key, key_from(arguments));
  options.allow_origin = arguments.text("--allow-origin").value_or("");
  constexpr double kDay = 86400;
  NIBBLE_ASSIGN_OR_RETURN(const auto request, arguments.number("--request-timeout", 0, kDay));
  NIBBLE_ASSIGN_OR_RETURN(const auto ready, arguments.number("--ready-timeout", 0.2, kDay));
  NIBBLE_ASSIGN_OR_RETURN(const auto shutdown, arguments.number("--shutdown-timeout", 0, kDay));
  if (request) options.request_timeout = nanoseconds_of(*request);
  if (ready) options.ready_timeout = nanoseconds_of(*ready);
  if (shutdown) options.shutdown_timeout = nanoseconds_of(*shutdown);
  NIBBLE_ASSIGN_OR_RETURN(const auto body,
                          arguments.integer("--max-body-bytes", 1, kMostFlagCount * 1000));
  if (body) options.max_body_bytes = static_cast<std::size_t>(*body);
  options.version = version();
  return {};
}

// A processor that has not the wanted instructions would die of them.
Result<> take_isa(const Arguments& arguments, engine::ModelOptions& options) {
  const auto name = arguments.text("--isa");
  if (!name) return {};
  options.isa = isa_from_string(*name).value();
  if (is_usable(options.isa)) return {};
  return usage_error("--isa is \"{}\", which this processor has not; its best is {}", *name,
                     to_string(best_isa()));
}

Result<> take_faults(const Arguments& arguments, ServeFlags& flags) {
  NIBBLE_ASSIGN_OR_RETURN(const serve::Faults faults,
                          serve::parse_faults(arguments.all("--inject")));
  flags.engine.step_stall = faults.step_stall;
  flags.load.router_bias = static_cast<float>(faults.router_bias);
  flags.server.inject = faults;
  return {};
}

Result<ServeFlags> serve_flags_from(const Arguments& arguments) {
  ServeFlags flags;
  flags.served_name = arguments.text("--served-model-name").value_or("");
  if (arguments.text("--generation-config") == "none") {
    flags.generation_config = serve::GenerationConfig::kNone;
  }
  NIBBLE_RETURN_IF_ERROR(take_engine(arguments, flags.engine));
  NIBBLE_RETURN_IF_ERROR(take_server(arguments, flags.server));
  if (const auto name = arguments.text("--kv-format")) {
    flags.load.kv_format = format_from_string(*name).value();
  }
  if (const auto name = arguments.text("--activations")) {
    flags.load.activations = format_from_string(*name).value();
  }
  NIBBLE_RETURN_IF_ERROR(take_isa(arguments, flags.load));
  NIBBLE_RETURN_IF_ERROR(take_faults(arguments, flags));
  NIBBLE_ASSIGN_OR_RETURN(flags.kv_cache_gb,
                          arguments.number("--kv-cache-memory", 0, 1e6, /*min_excluded=*/true));
  if (flags.kv_cache_gb && flags.engine.kv_blocks != 0) {
    return usage_error("--kv-cache-memory and --kv-blocks both size the KV cache; give one");
  }
  flags.tuning_file = arguments.text("--tuning");
  NIBBLE_ASSIGN_OR_RETURN(flags.model, model_folder(arguments));
  return flags;
}

Result<> size_cache(ServeFlags& flags, const engine::ModelInfo& model) {
  if (!flags.kv_cache_gb) return {};
  const double block = static_cast<double>(model.kv_bytes_per_token) *
                       static_cast<double>(flags.engine.block_tokens);
  const double blocks = *flags.kv_cache_gb * kGigabyte / block;
  if (blocks < 1) {
    return input_error("--kv-cache-memory is {} GB; one block of the KV cache takes {:.3g} GB",
                       *flags.kv_cache_gb, block / kGigabyte);
  }
  flags.engine.kv_blocks = static_cast<std::int64_t>(std::min(blocks, 2147483647.0));
  return {};
}

int engine_threads(const ServeFlags& flags) {
  const auto processors = static_cast<int>(usable_processors().size());
  return flags.engine.threads == 0 ? processors : flags.engine.threads;
}

// Said before the weights are loaded; the first line is a part of the configuration, too.
Result<std::string> tune_experts(const Arguments& arguments, ServeFlags& flags) {
  if (!flags.tuning_file) return std::string("none");
  const engine::EngineOptions& engine = flags.engine;
  ServeTuning request{
      .file = *flags.tuning_file,
      .model = flags.model,
      .threads = engine_threads(flags),
      .most_tokens = std::max(engine.max_num_batched_tokens, engine.max_running_requests)};
  if (arguments.has("--isa")) request.isa = flags.load.isa;
  NIBBLE_ASSIGN_OR_RETURN(const std::vector<std::string> said, take_tuning(request, flags.load));
  for (const std::string& line : said) fmt::print(stderr, "nibble serve: {}\n", line);
  return said.front();
}

// The model with all its weights; the pool that packed them ends with the function.
Result<std::unique_ptr<engine::Model>> load_model(const ServeFlags& flags) {
  ThreadPool pool(engine_threads(flags));
  return engine::load_checkpoint_model(flags.model, flags.load, pool);
}

void print_value(std::string_view part, std::string_view name, const Json& value) {
  fmt::print("{:<8} {:<24} {}\n", part, name,
             value.is_string() ? value.as_string() : value.dump(0));
}

// The whole configuration: a line a value, or all as one line of JSON.
void print_configuration(const Json& configuration, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", configuration.dump(0));
    return;
  }
  for (const auto& [part, values] : configuration.as_object()) {
    if (!values.is_object()) {
      print_value("nibble", part, values);
      continue;
    }
    for (const auto& [name, value] : values.as_object()) print_value(part, name, value);
  }
}

// Ends the engine, and with it the answers, then the server. A step that does not end in time
// neither keeps the clients nor, in the end, the program.
void stop_all(engine::Engine& engine, serve::Server& server) {
  std::promise<void> stopped;
  const std::future<void> ended = stopped.get_future();
  std::thread stopping([&] {
    engine.stop();
    stopped.set_value();
  });
  const bool in_time = ended.wait_for(kPatienceOfClients) == std::future_status::ready;
  server.stop();
  if (!in_time && ended.wait_for(kLongestStep) != std::future_status::ready) {
    fmt::print(stderr, "nibble: the engine's step does not end; the program ends without it\n");
    std::fflush(nullptr);
    std::_Exit(1);
  }
  stopping.join();
}

// One signal: no new answers, and those under way may end. Another, or the time: they are cut off.
void serve_until_signal(EndSignal& signal, serve::Server& server, engine::Engine& engine,
                        Nanoseconds patience) {
  signal.wait();
  server.drain();
  const Nanoseconds deadline = monotonic_now() + patience;
  while (!server.idle() && monotonic_now() < deadline) {
    if (signal.wait_for(kSignalGlance)) break;
  }
  signal.let_through();  // a third ends the program as it would any other
  stop_all(engine, server);
}

std::string served_summary(const engine::EngineState& state) {
  return fmt::format(
      "served {} prompt tokens ({} of them from the prefix cache) and {} tokens of "
      "answers in {} steps",
      state.prompt_tokens, state.cached_prompt_tokens, state.generation_tokens, state.steps);
}

Result<int> execute_serve(const Arguments& arguments) {
  NIBBLE_ASSIGN_OR_RETURN(ServeFlags flags, serve_flags_from(arguments));
  EndSignal signal;  // before any thread starts
  NIBBLE_ASSIGN_OR_RETURN(serve::ServedModel served,
                          serve::load_served_model(flags.model, flags.generation_config));
  if (!flags.served_name.empty()) served.name = flags.served_name;
  NIBBLE_ASSIGN_OR_RETURN(const std::string tuning, tune_experts(arguments, flags));
  served.facts = Json::object()
                     .set("activations", to_string(flags.load.activations))
                     .set("kv_format", to_string(flags.load.kv_format))
                     .set("isa", to_string(flags.load.isa))
                     .set("best_isa", to_string(best_isa()))
                     .set("tuning", tuning);
  NIBBLE_ASSIGN_OR_RETURN(std::unique_ptr<engine::Model> model, load_model(flags));
  NIBBLE_RETURN_IF_ERROR(size_cache(flags, model->info()));
  NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                          engine::Engine::start(std::move(model), flags.engine));
  // As many as there may be; fewer are enough for most, so that a refusal is no failure.
  static_cast<void>(net::allow_descriptors(kMostConnections));
  NIBBLE_ASSIGN_OR_RETURN(const std::unique_ptr<serve::Server> server,
                          serve::Server::start(flags.server, *engine, std::move(served)));
  if (flags.server.inject.any()) {
    fmt::print(stderr, "nibble serve: faults on purpose (--inject): {}\n",
               serve::describe(flags.server.inject));
  }
  const bool as_json = arguments.has("--json");
  print_configuration(server->configuration(), as_json);
  if (!as_json) fmt::print("nibble serve listens on {}\n", server->url());
  if (std::fflush(stdout) != 0) {
    return run_error(
        "cannot write to standard output, so that nobody would know where the server listens; give "
        "it "
        "a place to write to");
  }
  serve_until_signal(signal, *server, *engine, flags.server.shutdown_timeout);
  if (!as_json) fmt::print("{}\n", served_summary(engine->state()));
  return 0;
}

}  // namespace

CommandDef serve_command() {
  return {.name = "serve",
          .summary = "serves a 4-bit MoE model on the CPU, with the OpenAI API",
          .description =
              "Serves /v1/chat/completions and /v1/completions, whole or streamed, with an exact "
              "engine on this machine's processors (docs/serve.md). Without --model it serves the "
              "small model that is built into the program.\n\n"
              "The whole configuration is printed first, then the address once the server takes "
              "requests; --json prints both as one line of JSON. Ctrl-C lets answers that are "
              "under way end, a second one cuts them off.",
          .options = serve_options(),
          .examples = {{"nibble serve", "the built-in model on http://127.0.0.1:8000"},
                       {"nibble serve --model models/Qwen3-30B-A3B-NVFP4 --kv-format bf16",
                        "a checkpoint, keys and values in two bytes"},
                       {"nibble serve --host 0.0.0.0 --api-key-file key.txt",
                        "for other machines, with a key"}},
          .run = execute_serve};
}

}  // namespace nibble::cli
