#include "api/backend.h"

#include <gtest/gtest.h>
#include <set>

namespace nibble::api {
namespace {

TEST(Backend, NamesOfVllmAndSglang) {
  const std::pair<const char*, const char*> cases[] = {
      {"openai", "/v1/completions"},
      {"openai-chat", "/v1/chat/completions"},
      {"vllm", "/v1/completions"},
      {"vllm-chat", "/v1/chat/completions"},
      {"sglang", "/generate"},
      {"sglang-oai", "/v1/completions"},
      {"sglang-native", "/generate"},
      {"sglang-oai-chat", "/v1/chat/completions"},
      {"llamacpp", "/completion"},
      {"lmdeploy", "/v1/completions"},
      {"llama.cpp", "/completion"},
      {"lmdeploy-chat", "/v1/chat/completions"},
      {"tensorrt-llm", "/v1/completions"},
  };
  std::set<std::string_view> names;
  for (const auto& [name, endpoint] : cases) {
    const Result<Backend> backend = find_backend(name);
    ASSERT_TRUE(backend.ok()) << name;
    EXPECT_EQ(backend->endpoint, endpoint);
    EXPECT_EQ(dialect_of_path(endpoint), backend->dialect);
    names.insert(backend->name);
  }
  EXPECT_EQ(names.size(), backends().size());
}

TEST(Backend, ChatsTakeNoTokenIds) {
  for (const Backend& backend : backends()) {
    EXPECT_EQ(backend.token_ids, backend.dialect != Dialect::kChat) << backend.name;
  }
}

TEST(Backend, AnUnknownNameGetsTheNearest) {
  EXPECT_EQ(find_backend("open-ai").error().message,
            "no backend is named \"open-ai\"; did you mean openai or openai-chat?");
  EXPECT_NE(find_backend("zzz").error().message.find("there are openai, openai-chat"),
            std::string::npos);
  EXPECT_EQ(find_backend("").error().kind, ErrorKind::kUsage);
}

TEST(Backend, Paths) {
  EXPECT_EQ(dialect_of_path("/v1/completions/?x=1"), Dialect::kCompletions);
  EXPECT_EQ(dialect_of_path("/completions"), Dialect::kLlamacpp);
  EXPECT_EQ(dialect_of_path("/v1/models"), std::nullopt);
  EXPECT_EQ(dialect_of_path(""), std::nullopt);
}

}  // namespace
}  // namespace nibble::api
