#include "serve/logprobs.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "api/json_write.h"
#include "base/utf8.h"

namespace nibble::serve {
namespace {

// JSON has no infinities: what vLLM shows of a token that cannot be.
constexpr float kLeastLogprob = -9999;

void append_logprob(std::string& out, float value) {
  const bool shown = value > kLeastLogprob;  // neither -inf nor NaN
  fmt::format_to(std::back_inserter(out), "{}", shown ? value : kLeastLogprob);
}

std::string_view bytes_of(const text::Tokenizer& tokenizer, engine::TokenId id) {
  return tokenizer.token_bytes(id).value_or("");
}

void append_chat_token(std::string& out, std::string_view text, std::string_view bytes,
                       float logprob) {
  out += R"({"token":)";
  api::append_json_string(out, make_valid(text));
  out += R"(,"logprob":)";
  append_logprob(out, logprob);
  out += R"(,"bytes":[)";
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at > 0) out += ',';
    api::append_json_integer(out, static_cast<unsigned char>(bytes[at]));
  }
  out += ']';
}

void append_chat(std::string& out, const text::Tokenizer& tokenizer,
                 std::span<const GivenToken> tokens) {
  out += R"({"content":[)";
  for (const GivenToken& given : tokens) {
    if (&given != tokens.data()) out += ',';
    append_chat_token(out, bytes_of(tokenizer, given.token.id), given.bytes, given.token.logprob);
    out += R"(,"top_logprobs":[)";
    for (std::size_t at = 0; at < given.token.top.size(); ++at) {
      if (at > 0) out += ',';
      const engine::TokenLogprob& top = given.token.top[at];
      const std::string_view bytes = bytes_of(tokenizer, top.id);
      append_chat_token(out, bytes, bytes, top.logprob);
      out += '}';
    }
    out += "]}";
  }
  out += "]}";
}

std::string completion_token(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string shown = "bytes:";
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return shown;
}

// The most probable tokens and, as OpenAI has it, the chosen one in any case.
void append_top(std::string& out, const text::Tokenizer& tokenizer,
                const engine::OutputToken& chosen) {
  std::vector<engine::TokenLogprob> tokens = chosen.top;
  tokens.push_back({chosen.id, chosen.logprob});
  out += '{';
  std::set<std::string> seen;  // an object has each key once
  for (const engine::TokenLogprob& token : tokens) {
    std::string shown = completion_token(bytes_of(tokenizer, token.id));
    if (seen.contains(shown)) continue;
    if (!seen.empty()) out += ',';
    api::append_json_string(out, shown);
    out += ':';
    append_logprob(out, token.logprob);
    seen.insert(std::move(shown));
  }
  out += '}';
}

template <class Append>
void append_list(std::string& out, std::string_view name, std::span<const GivenToken> tokens,
                 Append append) {
  out += name;
  out += '[';
  for (const GivenToken& given : tokens) {
    if (&given != tokens.data()) out += ',';
    append(given);
  }
  out += ']';
}

void append_completion(std::string& out, const text::Tokenizer& tokenizer,
                       std::span<const GivenToken> tokens) {
  append_list(out, R"({"tokens":)", tokens, [&](const GivenToken& given) {
    api::append_json_string(out, completion_token(bytes_of(tokenizer, given.token.id)));
  });
  append_list(out, R"(,"token_logprobs":)", tokens,
              [&](const GivenToken& given) { append_logprob(out, given.token.logprob); });
  append_list(out, R"(,"top_logprobs":)", tokens,
              [&](const GivenToken& given) { append_top(out, tokenizer, given.token); });
  append_list(out, R"(,"text_offset":)", tokens,
              [&](const GivenToken& given) { api::append_json_integer(out, given.text_offset); });
  out += '}';
}

}  // namespace

void append_logprobs(std::string& out, api::Dialect dialect, const text::Tokenizer& tokenizer,
                     std::span<const GivenToken> tokens) {
  if (dialect == api::Dialect::kChat) {
    append_chat(out, tokenizer, tokens);
  } else {
    append_completion(out, tokenizer, tokens);
  }
}

}  // namespace nibble::serve
