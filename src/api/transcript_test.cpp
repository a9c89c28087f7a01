// Whole answers in golden/, written by hand after the documented formats of the servers that their
// names begin with: bytes -> events -> what they carried. Expected values are read off the files.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "api/stream.h"
#include "base/file.h"
#include "base/stats.h"
#include "net/sse.h"

namespace nibble::api {
namespace {

constexpr std::int64_t kUnknown = -1;  // of new_tokens

struct Expected {
  std::string file;
  Dialect dialect = Dialect::kChat;
  std::string content;
  std::string reasoning;
  std::string tool;
  std::vector<std::int64_t> new_tokens;  // of each event that bore tokens
  std::vector<TextKind> kinds;           // likewise; empty: all content
  Usage usage;
  UsageForm form = UsageForm::kNone;
  std::string finish_reason;
  bool saw_done = true;
  bool data_after_done = false;
  std::vector<std::string> errors;  // their messages
};

struct Replayed {
  std::string content, reasoning, tool;
  std::vector<std::int64_t> new_tokens;
  std::vector<TextKind> kinds;
  std::vector<std::string> errors;
  StreamEnd end;
};

void take(const StreamItem& item, Replayed& seen) {
  EXPECT_FALSE(item.malformed) << item.message;
  seen.content += item.content;
  seen.reasoning += item.reasoning;
  seen.tool += item.tool;
  if (item.is_error) seen.errors.push_back(item.message);
  if (!item.bears_tokens) return;
  seen.new_tokens.push_back(item.new_tokens.value_or(kUnknown));
  seen.kinds.push_back(item.kind());
}

// Feeds the bytes in pieces of random lengths up to `most`.
Replayed replay(std::string_view bytes, Dialect dialect, std::size_t most, std::uint64_t seed) {
  Replayed seen;
  StreamReader reader(dialect);
  net::SseParser parser;
  Random random(seed);
  const auto on_event = [&](const net::SseEvent& event) {
    take(reader.read(event.data, event.event), seen);
  };
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, random.below(most) + 1);
    EXPECT_TRUE(parser.feed(piece, on_event).ok());
    bytes.remove_prefix(piece.size());
  }
  EXPECT_TRUE(parser.finish(on_event).ok());
  seen.end = reader.end();
  return seen;
}

void expect_same(const Replayed& seen, const Expected& expected) {
  EXPECT_EQ(seen.content, expected.content);
  EXPECT_EQ(seen.reasoning, expected.reasoning);
  EXPECT_EQ(seen.tool, expected.tool);
  EXPECT_EQ(seen.new_tokens, expected.new_tokens);
  const std::vector<TextKind> content(expected.new_tokens.size(), TextKind::kContent);
  EXPECT_EQ(seen.kinds, expected.kinds.empty() ? content : expected.kinds);
  EXPECT_EQ(seen.errors, expected.errors);
  EXPECT_EQ(seen.end.usage, expected.usage);
  EXPECT_EQ(seen.end.usage_form, expected.form);
  EXPECT_EQ(seen.end.finish_reason, expected.finish_reason);
  EXPECT_EQ(seen.end.saw_done, expected.saw_done);
  EXPECT_EQ(seen.end.data_after_done, expected.data_after_done);
  EXPECT_EQ(seen.end.token_events, static_cast<std::int64_t>(expected.new_tokens.size()));
  EXPECT_FALSE(seen.end.count_fell);
}

void check(const Expected& expected) {
  SCOPED_TRACE(expected.file);
  const auto text =
      read_file(std::string(NIBBLE_SOURCE_DIR "/src/api/golden/") + expected.file, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.error().message;
  // At once, byte for byte, and cut anywhere.
  expect_same(replay(*text, expected.dialect, text->size(), 1), expected);
  expect_same(replay(*text, expected.dialect, 1, 1), expected);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    expect_same(replay(*text, expected.dialect, 50, seed), expected);
  }
}

constexpr auto kReasoning = TextKind::kReasoning;
constexpr auto kContent = TextKind::kContent;
constexpr auto kTool = TextKind::kTool;

TEST(Transcript, UsageInALastChunkWithoutChoices) {
  check({.file = "vllm_completions.sse",
         .dialect = Dialect::kCompletions,
         .content = " Paris, the",
         .new_tokens = {kUnknown, kUnknown, kUnknown},
         .usage = {.prompt_tokens = 6, .output_tokens = 3},
         .form = UsageForm::kFinal,
         .finish_reason = "length"});
}

TEST(Transcript, UsageInEveryChunkCountsTokensPerEvent) {
  check({.file = "vllm_chat_continuous.sse",
         .content = "Hello my dear friend!",
         .new_tokens = {1, 3, 1},
         .usage = {.prompt_tokens = 11, .output_tokens = 5, .cached_tokens = 8},
         .form = UsageForm::kContinuous,
         .finish_reason = "stop"});
}

TEST(Transcript, RolesAndEmptyDeltasBearNoTokens) {
  check({.file = "openai_chat.sse",
         .content = "Hello \xF0\x9F\x98\x80\n",
         .new_tokens = {kUnknown, kUnknown},
         .usage =
             {.prompt_tokens = 19, .output_tokens = 10, .cached_tokens = 4, .reasoning_tokens = 7},
         .form = UsageForm::kFinal,
         .finish_reason = "stop"});
}

TEST(Transcript, ReasoningStandsApart) {
  check({.file = "sglang_chat_reasoning.sse",
         .content = "42",
         .reasoning = "Let me think",
         .new_tokens = {kUnknown, kUnknown, kUnknown},
         .kinds = {kReasoning, kReasoning, kContent},
         .usage = {.prompt_tokens = 9, .output_tokens = 4, .reasoning_tokens = 2},
         .form = UsageForm::kFinal,
         .finish_reason = "stop"});
}

TEST(Transcript, ReasoningUnderTwoNamesIsReadOnce) {
  check({.file = "vllm_chat_both_reasonings.sse",
         .content = "Yes",
         .reasoning = "So it is",
         .new_tokens = {kUnknown, kUnknown},
         .kinds = {kReasoning, kContent},
         .finish_reason = "stop"});
}

TEST(Transcript, ToolCallsBearTokens) {
  check({.file = "openai_tool_calls.sse",
         .tool = "get_weather{\"city\":\"Oslo\"}",
         .new_tokens = {kUnknown, kUnknown, kUnknown},
         .kinds = {kTool, kTool, kTool},
         .finish_reason = "tool_calls"});
}

TEST(Transcript, SglangRepeatsTheTextSoFar) {
  // The third event brings a token without new text: half of a character, as a rule.
  check({.file = "sglang_generate.sse",
         .dialect = Dialect::kSglang,
         .content = " Paris, in France",
         .new_tokens = {1, 2, 1, 1},
         .usage = {.prompt_tokens = 5, .output_tokens = 5, .cached_tokens = 1},
         .form = UsageForm::kContinuous,
         .finish_reason = "length"});
}

TEST(Transcript, SglangMaySendPiecesInstead) {
  check({.file = "sglang_generate_incremental.sse",
         .dialect = Dialect::kSglang,
         .content = "!!!!",
         .new_tokens = {1, 1, 1, 1},
         .usage = {.prompt_tokens = 5, .output_tokens = 4, .cached_tokens = 1},
         .form = UsageForm::kContinuous,
         .finish_reason = "length"});
}

TEST(Transcript, LlamacppEndsWithoutDone) {
  check({.file = "llamacpp_completion.sse",
         .dialect = Dialect::kLlamacpp,
         .content = " there was a",
         .new_tokens = {1, 1, 1},
         .usage = {.prompt_tokens = 7, .output_tokens = 3, .cached_tokens = 2},
         .form = UsageForm::kContinuous,
         .finish_reason = "length"});
}

TEST(Transcript, OlderLlamacppCountsAtTheEnd) {
  check({.file = "llamacpp_completion_old.sse",
         .dialect = Dialect::kLlamacpp,
         .content = " there was",
         .new_tokens = {kUnknown, kUnknown},
         .usage = {.prompt_tokens = 7, .output_tokens = 2},
         .form = UsageForm::kFinal,
         .finish_reason = "length"});
}

TEST(Transcript, LlamacppTimingsStandInForUsage) {
  check({.file = "llamacpp_chat.sse",
         .content = "Hi you",
         .new_tokens = {kUnknown, kUnknown},
         .usage = {.prompt_tokens = 10, .output_tokens = 2, .cached_tokens = 4},
         .form = UsageForm::kFinal,
         .finish_reason = "length"});
}

TEST(Transcript, AllFreedomsOfTheGrammarAndNoDone) {
  check({.file = "odd_framing.sse",
         .dialect = Dialect::kCompletions,
         .content = "one two three",
         .new_tokens = {kUnknown, kUnknown, kUnknown},
         .usage = {.prompt_tokens = 4, .output_tokens = 3},
         .form = UsageForm::kFinal,
         .finish_reason = "length",
         .saw_done = false});
}

TEST(Transcript, DataBehindDoneIsFlaggedAndNotRead) {
  check({.file = "data_after_done.sse",
         .dialect = Dialect::kCompletions,
         .content = " a",
         .new_tokens = {kUnknown},
         .data_after_done = true});
}

TEST(Transcript, ErrorsWithinAStream) {
  check(
      {.file = "vllm_error_event.sse",
       .dialect = Dialect::kCompletions,
       .content = " a",
       .new_tokens = {kUnknown},
       .errors = {"EngineCore encountered an issue. See stack trace (above) for the root cause."}});
  check({.file = "sglang_error_event.sse",
         .dialect = Dialect::kSglang,
         .errors = {"The input (9000 tokens) is longer than the model's context length (8192 "
                    "tokens)."}});
  check({.file = "sglang_abort.sse",
         .dialect = Dialect::kSglang,
         .content = " Pa",
         .new_tokens = {1},
         .usage = {.prompt_tokens = 5, .output_tokens = 1, .cached_tokens = 1},
         .form = UsageForm::kContinuous,
         .errors = {"Aborted: out of memory"}});
  check({.file = "named_error_event.sse",
         .content = "Hi",
         .new_tokens = {kUnknown},
         .saw_done = false,
         .errors = {"overloaded"}});
}

TEST(Transcript, UsageOfZeroWithTextIsInvalid) {
  check({.file = "usage_zeros.sse",
         .dialect = Dialect::kCompletions,
         .content = " a b",
         .new_tokens = {kUnknown, kUnknown},
         .form = UsageForm::kInvalid,
         .finish_reason = "length"});
}

TEST(Transcript, UsageMayBeMissing) {
  check({.file = "usage_missing.sse",
         .dialect = Dialect::kCompletions,
         .content = " a b",
         .new_tokens = {kUnknown, kUnknown},
         .form = UsageForm::kNone,
         .finish_reason = "length"});
}

}  // namespace
}  // namespace nibble::api
