#include "api/backend.h"

#include <array>
#include <string>
#include <vector>

#include "base/text.h"

namespace nibble::api {
namespace {

constexpr std::string_view kCompletionsPath = "/v1/completions";
constexpr std::string_view kChatPath = "/v1/chat/completions";
constexpr std::string_view kSglangPath = "/generate";
constexpr std::string_view kLlamacppPath = "/completion";

constexpr Backend completions(std::string_view name, std::string_view note = {}) {
  return {.name = name,
          .dialect = Dialect::kCompletions,
          .endpoint = kCompletionsPath,
          .token_ids = true,
          .ignore_eos = true,
          .min_tokens = true,
          .continuous_usage = true,
          .note = note};
}

constexpr Backend chat(std::string_view name) {
  return {.name = name,
          .dialect = Dialect::kChat,
          .endpoint = kChatPath,
          .ignore_eos = true,
          .min_tokens = true,
          .continuous_usage = true};
}

constexpr Backend sglang(std::string_view name) {
  return {.name = name,
          .dialect = Dialect::kSglang,
          .endpoint = kSglangPath,
          .token_ids = true,
          .ignore_eos = true,
          .min_tokens = true,
          .counts_always = true,
          .note =
              "SGLang's native /generate, as in sglang.bench_serving; vLLM's benchmark means "
              "/v1/completions by this name: use sglang-oai for that"};
}

constexpr Backend llamacpp(std::string_view name) {
  return {
      .name = name,
      .dialect = Dialect::kLlamacpp,
      .endpoint = kLlamacppPath,
      .token_ids = true,
      .ignore_eos = true,
      .counts_always = true,
      .note = "llama.cpp's native /completion; use openai or openai-chat for its /v1 endpoints"};
}

constexpr std::array kBackends = {
    completions("openai"),
    chat("openai-chat"),
    completions("vllm"),
    chat("vllm-chat"),
    sglang("sglang"),
    sglang("sglang-native"),
    completions("sglang-oai"),
    chat("sglang-oai-chat"),
    llamacpp("llamacpp"),
    llamacpp("llama.cpp"),
    completions("lmdeploy"),
    chat("lmdeploy-chat"),
    completions("tensorrt-llm",
                "the OpenAI-compatible server of trtllm-serve; vLLM's benchmark "
                "means Triton's generate_stream by this name"),
};

}  // namespace

std::span<const Backend> backends() {
  return kBackends;
}

Result<Backend> find_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return backend;
    names.emplace_back(backend.name);
  }
  const std::string hint = did_you_mean(name, names);
  if (!hint.empty()) return usage_error("no backend is named \"{}\"{}", printable(name), hint);
  return usage_error("no backend is named \"{}\"; there are {}", printable(name),
                     join(names, ", "));
}

std::optional<Dialect> dialect_of_path(std::string_view path) {
  path = path.substr(0, path.find('?'));
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == kCompletionsPath) return Dialect::kCompletions;
  if (path == kChatPath) return Dialect::kChat;
  if (path == kSglangPath) return Dialect::kSglang;
  // llama.cpp knows its endpoint by both names.
  if (path == kLlamacppPath || path == "/completions") return Dialect::kLlamacpp;
  return std::nullopt;
}

std::string_view dialect_name(Dialect dialect) {
  switch (dialect) {
    case Dialect::kCompletions:
      return "completions";
    case Dialect::kChat:
      return "chat completions";
    case Dialect::kSglang:
      return "SGLang generate";
    case Dialect::kLlamacpp:
      return "llama.cpp completion";
  }
  return "";
}

}  // namespace nibble::api
