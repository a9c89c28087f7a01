// What an event costs the load test and the mock server beside sockets. Bound: 3 us to read one.
//
//   make bench
#include <benchmark/benchmark.h>
#include <string>

#include "api/degenerate.h"
#include "api/reply.h"
#include "api/request.h"
#include "api/stream.h"
#include "base/json.h"

namespace nibble::api {
namespace {

const std::string kCompletion =
    R"({"id":"cmpl-8b1d0c7e5f","object":"text_completion","created":1717000000,)"
    R"("model":"Qwen/Qwen3-235B-A22B","choices":[{"index":0,"text":" Paris","logprobs":null,)"
    R"("finish_reason":null,"stop_reason":null}],"usage":{"prompt_tokens":1024,)"
    R"("total_tokens":1100,"completion_tokens":76}})";
const std::string kChat =
    R"({"id":"chatcmpl-77","object":"chat.completion.chunk","created":1717000001,)"
    R"("model":"Qwen/Qwen3-235B-A22B","choices":[{"index":0,"delta":{"role":null,"content":" Paris",)"
    R"("reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,)"
    R"("matched_stop":null}],"usage":{"prompt_tokens":1024,"total_tokens":1100,)"
    R"("completion_tokens":76}})";

void read_event(benchmark::State& state, Dialect dialect, const std::string& data) {
  StreamReader reader(dialect);
  for (auto _ : state) benchmark::DoNotOptimize(reader.read(data).content.data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(data.size()));
}
void read_completion(benchmark::State& state) {
  read_event(state, Dialect::kCompletions, kCompletion);
}
void read_chat(benchmark::State& state) {
  read_event(state, Dialect::kChat, kChat);
}
BENCHMARK(read_completion);
BENCHMARK(read_chat);

// What the same costs as a tree: why there is a scanner.
void read_completion_as_tree(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Json::parse(kCompletion, "event"));
}
BENCHMARK(read_completion_as_tree);

void write_event(benchmark::State& state, Dialect dialect) {
  ReplyWriter writer(dialect, {.id = "chatcmpl-77", .model = "Qwen/Qwen3-235B-A22B"});
  const Usage usage = {.prompt_tokens = 1024, .output_tokens = 76};
  std::string out;
  for (auto _ : state) {
    out.clear();
    writer.piece(out, {.text = " Paris", .usage = &usage});
    benchmark::DoNotOptimize(out.data());
  }
}
void write_completion(benchmark::State& state) {
  write_event(state, Dialect::kCompletions);
}
void write_chat(benchmark::State& state) {
  write_event(state, Dialect::kChat);
}
BENCHMARK(write_completion);
BENCHMARK(write_chat);

// A request of 1,024 prompt tokens.
void write_request(benchmark::State& state) {
  GenerationRequest request = {.model = "m", .max_tokens = 128, .ignore_eos = true};
  for (std::int32_t id = 1000; id < 2024; ++id) request.prompt_ids.push_back(id);
  const Backend backend = find_backend("vllm").value();
  for (auto _ : state) benchmark::DoNotOptimize(request_body(backend, request)->json.data());
}
BENCHMARK(write_request);

// And of 8,192: as a server reads it, and as a tree would be built of it.
std::string long_request() {
  GenerationRequest request = {.model = "m", .max_tokens = 128};
  for (std::int32_t id = 100'000; id < 108'192; ++id) request.prompt_ids.push_back(id);
  return request_body(find_backend("vllm").value(), request)->json;
}
void read_request(benchmark::State& state) {
  const std::string body = long_request();
  for (auto _ : state) benchmark::DoNotOptimize(parse_request(Dialect::kCompletions, body));
}
void read_request_as_tree(benchmark::State& state) {
  const std::string body = long_request();
  for (auto _ : state) benchmark::DoNotOptimize(Json::parse(body, "request"));
}
BENCHMARK(read_request);
BENCHMARK(read_request_as_tree);

void look_for_repetition(benchmark::State& state) {
  std::string text;
  for (int index = 0; index < 600; ++index) text += std::to_string(index * 7919) + " ";
  for (auto _ : state) benchmark::DoNotOptimize(find_repetition(text));
}
BENCHMARK(look_for_repetition);

}  // namespace
}  // namespace nibble::api

BENCHMARK_MAIN();
