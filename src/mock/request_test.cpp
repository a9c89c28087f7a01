#include "mock/request.h"

#include <gtest/gtest.h>

namespace nibble::mock {
namespace {

using api::Dialect;

ClientRequest read(Dialect dialect, std::string_view body) {
  const auto request = read_request(dialect, body);
  EXPECT_TRUE(request.ok()) << body;
  return request.ok() ? *request : ClientRequest{};
}

TEST(MockRequest, Completions) {
  const ClientRequest request =
      read(Dialect::kCompletions,
           R"({"model": "m", "prompt": "one two  three\nfour", "max_tokens": 9, "stream": true,
               "stream_options": {"include_usage": true, "continuous_usage_stats": true},
               "temperature": 0, "unknown": {"a": [1]}})");
  EXPECT_EQ(request.asked.model, "m");
  EXPECT_EQ(request.prompt_tokens, 4);
  EXPECT_EQ(request.asked.max_tokens, 9);
  EXPECT_TRUE(request.asked.stream);
  EXPECT_TRUE(request.asked.include_usage && request.asked.continuous_usage);
}

TEST(MockRequest, TokenIdsAreCountedExactly) {
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt": [1, 2, 3]})").prompt_tokens, 3);
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt": [[1, 2]]})").prompt_tokens, 2);
  EXPECT_EQ(read(Dialect::kSglang, R"({"input_ids": [1, 2, 3, 4]})").prompt_tokens, 4);
  EXPECT_EQ(read(Dialect::kCompletions, R"({"prompt": ["a b"]})").prompt_tokens, 2);
}

// One answer to two prompts would pass for a whole one.
TEST(MockRequest, SeveralPromptsAreRefused) {
  for (const char* body : {R"({"prompt": ["a b", "c"]})", R"({"prompt": [[1, 2], [3, 4, 5]]})"}) {
    const Result<ClientRequest> request = read_request(Dialect::kCompletions, body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_NE(request.error().message.find("holds 2 prompts"), std::string::npos);
  }
}

TEST(MockRequest, Chat) {
  const ClientRequest request = read(Dialect::kChat,
                                     R"({"messages": [{"role": "system", "content": "be brief"},
                       {"role": "user", "content": [{"type": "text", "text": "how are you"}]}],
          "max_tokens": null, "max_completion_tokens": 5})");
  EXPECT_EQ(request.prompt_tokens, 5);
  EXPECT_EQ(request.asked.max_tokens, 5);
  EXPECT_FALSE(request.asked.stream);
}

// An answer may take an hour, and nothing reads the prompt again.
TEST(MockRequest, ThePromptIsNotKept) {
  const ClientRequest request = read(
      Dialect::kChat, R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                          {"type": "text", "text": "b"}]}], "more": [1, 2], "max_tokens": 2})");
  EXPECT_EQ(request.prompt_tokens, 2);
  EXPECT_EQ(
      request.asked,
      (api::GenerationRequest{
          .max_tokens = 2, .stream = false, .include_usage = false, .continuous_usage = false}));
}

TEST(MockRequest, StreamOptionsAreSeen) {
  EXPECT_TRUE(has_stream_options(R"({"a": [{}], "stream_options": {"include_usage": false}})"));
  EXPECT_TRUE(has_stream_options(R"({"stream_options": {}, "b": 1})"));
  for (const char* body : {R"({"stream_options": null})", R"({"a": {"stream_options": {}}})", "",
                           "[]", R"({"prompt": "stream_options"})", R"({"stream_options": {})"}) {
    EXPECT_FALSE(has_stream_options(body)) << body;
  }
}

TEST(MockRequest, NativeFormats) {
  const ClientRequest sglang =
      read(Dialect::kSglang,
           R"({"text": "a b", "sampling_params": {"max_new_tokens": 7}, "stream": true})");
  EXPECT_EQ(sglang.asked.max_tokens, 7);
  EXPECT_EQ(sglang.prompt_tokens, 2);
  EXPECT_TRUE(sglang.asked.stream);
  EXPECT_EQ(read(Dialect::kLlamacpp, R"({"prompt": "a", "n_predict": 3})").asked.max_tokens, 3);
  EXPECT_EQ(read(Dialect::kLlamacpp, R"({"prompt": "a", "n_predict": -1})").asked.max_tokens,
            std::nullopt);
}

TEST(MockRequest, RefusesWhatIsNoRequest) {
  for (const char* body :
       {"", "[]", "{", R"({"max_tokens": 3})", R"({"prompt": "a"} x)",
        R"({"prompt": "a", "max_tokens": 0})", R"({"prompt": "a", "max_tokens": -5})",
        R"({"prompt": "a", "max_tokens": 1.5})"}) {
    EXPECT_FALSE(read_request(Dialect::kCompletions, body).ok()) << body;
  }
}

TEST(MockRequest, DeepNestingIsHarmless) {
  const std::string deep =
      R"({"prompt": )" + std::string(100'000, '[') + "1" + std::string(100'000, ']') + "}";
  EXPECT_FALSE(read_request(Dialect::kCompletions, deep).ok());
  std::string parts = R"({"messages": )";
  for (int level = 0; level < 50; ++level) parts += R"({"content": )";
  parts += "1" + std::string(51, '}');
  EXPECT_FALSE(read_request(Dialect::kChat, parts).ok());
}

TEST(MockRequest, Words) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words("  \n\t "), 0);
  EXPECT_EQ(count_words(" a  b\r\nc"), 3);
}

}  // namespace
}  // namespace nibble::mock
