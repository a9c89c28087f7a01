// What servers and clients may send: no crash and no hang on any bytes, and promises kept.
//
// The first byte says what the rest is: 'v', 'c', 's' and 'l' the bytes of a stream (vLLM
// completions, chat, SGLang, llama.cpp), 'b' a body, 'r' a request, 'j' JSON for the scanner, which
// must agree with the tree parser.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/degenerate.h"
#include "api/error_text.h"
#include "api/json_scan.h"
#include "api/json_write.h"
#include "api/reply.h"
#include "api/request.h"
#include "api/stream.h"
#include "base/json.h"
#include "base/text.h"
#include "net/sse.h"

namespace {

using namespace nibble;
using namespace nibble::api;

constexpr Dialect kAll[] = {Dialect::kCompletions, Dialect::kChat, Dialect::kSglang,
                            Dialect::kLlamacpp};

void check_line(std::string_view text) {
  NIBBLE_CHECK(!text.empty() && text.find('\n') == std::string_view::npos);
  NIBBLE_CHECK(text.size() < 4096);
}

void check_item(const StreamItem& item) {
  if (item.malformed || item.is_error) {
    check_line(item.message);
    NIBBLE_CHECK(!item.has_text() && !item.bears_tokens);
  }
  NIBBLE_CHECK(!item.new_tokens || (*item.new_tokens >= 0 && item.bears_tokens));
  NIBBLE_CHECK(!item.usage.output_tokens || *item.usage.output_tokens >= 0);
  for (const std::string* text : {&item.content, &item.reasoning, &item.tool}) {
    std::string quoted;
    append_json_string(quoted, *text);
    NIBBLE_CHECK(Json::parse(quoted, "text")->as_string() == *text);  // thus valid UTF-8
  }
}

void read_stream(Dialect dialect, std::string_view bytes) {
  StreamReader reader(dialect);
  net::SseParser parser;
  const auto take = [&](const net::SseEvent& event) {
    check_item(reader.read(event.data, event.event));
  };
  static_cast<void>(parser.feed(bytes, take));
  static_cast<void>(parser.finish(take));
  const StreamEnd end = reader.end();
  NIBBLE_CHECK(end.token_events >= 0);
  NIBBLE_CHECK((end.usage_form >= UsageForm::kFinal) == end.usage.output_tokens.has_value());
}

void read_any_body(std::string_view bytes) {
  for (const Dialect dialect : kAll) {
    const StreamItem item = read_body(dialect, bytes);
    NIBBLE_CHECK(!(item.malformed && item.is_error));
    if (item.malformed || item.is_error) check_line(item.message);
  }
  check_line(error_text(bytes));
  static_cast<void>(read_models(bytes));
  if (const auto found = find_repetition(bytes)) {
    NIBBLE_CHECK(found->times >= kLeastRepetitions && found->unit.size() <= kMaxRepeatedBytes);
    NIBBLE_CHECK(found->covered <= bytes.size() && 2 * found->covered > bytes.size());
  }
}

// What was read is written and read again as the same.
void read_request(std::string_view bytes) {
  constexpr std::string_view kNames[] = {"vllm", "vllm-chat", "sglang", "llamacpp"};
  for (const std::string_view name : kNames) {
    const Backend backend = find_backend(name).value();
    const Result<GenerationRequest> request = parse_request(backend.dialect, bytes);
    if (!request) {
      NIBBLE_CHECK(!request.error().message.empty());
      continue;
    }
    const Result<RequestBody> body = request_body(backend, *request);
    if (!body) continue;  // such as an extra body that a client may not write
    const Result<GenerationRequest> again = parse_request(backend.dialect, body->json);
    NIBBLE_CHECK(again.ok());
    NIBBLE_CHECK(again->prompt == request->prompt && again->prompt_ids == request->prompt_ids);
    NIBBLE_CHECK(again->max_tokens == request->max_tokens && again->stream == request->stream);
    NIBBLE_CHECK(again->messages == request->messages && again->stop == request->stop);
  }
}

void scan_json(std::string_view text) {
  JsonScanner scan(text);
  scan.skip();
  const bool accepted = scan.finish();
  const Result<Json> tree = Json::parse(text, "fuzz");
  if (tree.ok()) NIBBLE_CHECK(accepted && !scan.repaired());
  if (!accepted) NIBBLE_CHECK(!tree.ok() && !scan.fault().empty());
  if (accepted && !tree.ok() && !scan.repaired()) {
    // What the scanner allows on purpose.
    const std::string& why = tree.error().message;
    NIBBLE_CHECK(why.find("twice") != std::string::npos ||
                 why.find("out of range") != std::string::npos);
  }
  if (tree.ok() && tree->is_string()) {
    JsonScanner string(text);
    std::string read;
    NIBBLE_CHECK(string.read_string(read) && read == tree->as_string());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'v':
      read_stream(Dialect::kCompletions, rest);
      break;
    case 'c':
      read_stream(Dialect::kChat, rest);
      break;
    case 's':
      read_stream(Dialect::kSglang, rest);
      break;
    case 'l':
      read_stream(Dialect::kLlamacpp, rest);
      break;
    case 'b':
      read_any_body(rest);
      break;
    case 'r':
      read_request(rest);
      break;
    default:
      scan_json(rest);
  }
  return 0;
}
