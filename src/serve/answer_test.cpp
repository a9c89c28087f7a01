// Answers over HTTP: their forms, whole and streamed.
#include <set>

#include "serve/test_server.h"

namespace nibble::serve {
namespace {

std::string chat(const std::string& content, const std::string& more = "") {
  return fmt::format(R"({{"messages":[{{"role":"user","content":{}}}]{}}})", Json(content).dump(0),
                     more);
}
std::string completion(const std::string& prompt, const std::string& more = "") {
  return fmt::format(R"({{"prompt":{}{}}})", Json(prompt).dump(0), more);
}
// The model repeats what stands before the mark.
std::string repeated(const std::string& text, const std::string& more = "") {
  return completion(text + "<|assistant|>", R"(,"max_tokens":200)" + more);
}
constexpr const char* kStream = R"(,"stream":true)";
constexpr const char* kUsage = R"(,"stream":true,"stream_options":{"include_usage":true})";

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.as_object()) keys.insert(key);
  return keys;
}

TEST(Answers, AChatAsOneBody) {
  TestServer server;
  const api::Answer answer = server.ask(kChats, chat("hey"));
  ASSERT_EQ(answer.exchange.status, 200) << answer.body;
  const Json json = json_of(answer);
  EXPECT_EQ(json.find("object")->as_string(), "chat.completion");
  EXPECT_EQ(json.find("model")->as_string(), "test");
  const Json choice = choice_of(answer);
  // vllm#13978: an empty tool_calls breaks clients.
  EXPECT_EQ(keys_of(choice),
            (std::set<std::string>{"index", "message", "logprobs", "finish_reason"}));
  EXPECT_EQ(choice.find("message")->dump(0), R"({"role":"assistant","content":"hey"})");
  EXPECT_EQ(choice.find("finish_reason")->as_string(), "stop");
  EXPECT_TRUE(choice.find("logprobs")->is_null());
  // <|user|> he y <|assistant|>; then <|user|> he y, and the end, which is not counted.
  EXPECT_EQ(json.find("usage")->dump(0),
            R"({"prompt_tokens":4,"total_tokens":7,"completion_tokens":3,)"
            R"("prompt_tokens_details":{"cached_tokens":0}})");
}

TEST(Answers, ACompletionAsOneBody) {
  TestServer server;
  const api::Answer answer = server.ask(kCompletions, completion("x"));
  const Json json = json_of(answer);
  EXPECT_EQ(json.find("object")->as_string(), "text_completion");
  EXPECT_EQ(choice_of(answer).dump(0),
            R"({"index":0,"text":"cdefghijklmnopqr","logprobs":null,"finish_reason":"length"})");
  EXPECT_EQ(json.find("usage")->find("completion_tokens")->as_integer(), 16);  // OpenAI's default
}

TEST(Answers, AChatAsAStream) {
  TestServer server;
  const api::Answer answer = server.ask(kChats, chat("hey", kUsage));
  EXPECT_EQ(net::find_header(answer.exchange.headers, "Content-Type"),
            "text/event-stream; charset=utf-8");
  const std::vector<Json> events = events_of(answer);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front().find("choices")->as_array()[0].find("delta")->dump(0),
            R"({"role":"assistant","content":""})");
  for (const Json& event : events) {
    EXPECT_EQ(event.find("object")->as_string(), "chat.completion.chunk");
    EXPECT_EQ(event.find("id")->as_string(), events.front().find("id")->as_string());
    for (const Json& choice : event.find("choices")->as_array()) {
      EXPECT_EQ(choice.find("delta")->find("tool_calls"), nullptr);
      // ollama#4357: no reason is null, never "".
      const Json& reason = *choice.find("finish_reason");
      EXPECT_TRUE(reason.is_null() || reason.as_string() == "stop");
    }
  }
  const StreamedChoice whole = streamed(events);
  EXPECT_EQ(whole.text, "hey");
  EXPECT_EQ(whole.role, "assistant");
  EXPECT_EQ(whole.reason, "stop");
  // Usage comes last, in an event without choices, and in no other.
  EXPECT_TRUE(events.back().find("choices")->as_array().empty());
  EXPECT_EQ(events.back().find("usage")->find("completion_tokens")->as_integer(), 3);
  for (std::size_t at = 0; at + 1 < events.size(); ++at) {
    EXPECT_EQ(events[at].find("usage"), nullptr);
  }
}

TEST(Answers, UsageInEveryEventWhereItIsAskedFor) {
  TestServer server;
  const api::Answer answer = server.ask(
      kCompletions, completion("x", R"(,"max_tokens":4,"stream":true,"stream_options":)"
                                    R"({"include_usage":true,"continuous_usage_stats":true})"));
  std::vector<std::int64_t> counts;
  for (const Json& event : events_of(answer)) {
    EXPECT_EQ(event.find("usage")->find("prompt_tokens")->as_integer(), 2);
    counts.push_back(event.find("usage")->find("completion_tokens")->as_integer());
  }
  EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 2, 3, 4, 4}));
  EXPECT_EQ(answer.end.usage_form, api::UsageForm::kContinuous);
}

// exo PR 1691 and others: a character in several tokens, seen by every client.
TEST(Answers, CharactersInSeveralTokensArriveWhole) {
  TestServer server;
  for (const std::string& text :
       {std::string("\U0001F469\u200D\U0001F680 rocket"), std::string("e\u0301\u0327x"),
        std::string("\uD55C\uAE00 \u4E2D\u6587"), std::string("\U0001F1E9\U0001F1EA\U0001F3F4")}) {
    const api::Answer stream = server.ask(kCompletions, repeated(text, kStream));
    EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, repeated(text)))), text);
    EXPECT_EQ(streamed(events_of(stream)).text, text);
    EXPECT_EQ(stream.body.find("\uFFFD"), std::string::npos);
  }
  // Of bytes that are no characters, the same in both.
  const auto body = [](const char* more) {
    return std::string(R"({"prompt":[260,97,255,228,184,259],"max_tokens":9)") + more + "}";
  };
  EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, body("")))), "a\uFFFD\uFFFD");
  EXPECT_EQ(streamed(events_of(server.ask(kCompletions, body(kStream)))).text, "a\uFFFD\uFFFD");
}

TEST(Answers, EveryStopStringInEveryPlace) {
  TestServer server;
  const std::string text = "xhey \u00E9\U0001F680z";
  std::vector<std::string> bodies;
  std::vector<std::string> expected;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (std::size_t size = 1; begin + size <= text.size(); ++size) {
      const std::string stop = text.substr(begin, size);
      if (!is_valid_utf8(stop)) continue;
      const std::string more = fmt::format(R"(,"stop":["never",{}])", Json(stop).dump(0));
      bodies.push_back(repeated(text, more));
      bodies.push_back(repeated(text, more + kStream));
      expected.push_back(text.substr(0, text.find(stop)));
    }
  }
  const std::vector<api::Answer> answers = server.client->ask_all(kCompletions, bodies);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    const Json whole = choice_of(answers[2 * at]);
    EXPECT_EQ(text_of(whole), expected[at]) << bodies[2 * at];
    EXPECT_EQ(whole.find("finish_reason")->as_string(), "stop");
    const StreamedChoice stream = streamed(events_of(answers[2 * at + 1]));
    EXPECT_EQ(stream.text, expected[at]) << bodies[2 * at];
    EXPECT_EQ(stream.reason, "stop");
  }
  EXPECT_TRUE(server.comes_to_rest());
  const Json whole = choice_of(
      server.ask(kCompletions, repeated(text, R"(,"stop":"y","include_stop_str_in_output":true)")));
  EXPECT_EQ(text_of(whole), "xhey");
}

TEST(Answers, StopTokensAndTheEnd) {
  TestServer server;
  EXPECT_EQ(
      text_of(choice_of(server.ask(kCompletions, repeated("abc", R"(,"stop_token_ids":[99])")))),
      "ab");
  // The end is just another token then, and special; it goes on until max_tokens.
  const Json on = choice_of(
      server.ask(kCompletions,
                 completion("ab<|assistant|>",
                            R"(,"max_tokens":4,"ignore_eos":true,"skip_special_tokens":false)")));
  EXPECT_EQ(text_of(on), "ab<|end|><|end|>");
  EXPECT_EQ(on.find("finish_reason")->as_string(), "length");
  const Json least = choice_of(server.ask(
      kCompletions,
      completion("a<|assistant|>", R"(,"min_tokens":5,"max_tokens":5,"temperature":0)")));
  EXPECT_EQ(least.find("finish_reason")->as_string(), "length");
}

// <bos> t e e: four tokens, followed by the letters from the one of that place on.
TEST(Answers, StopStringsCountBeyondTheLeastTokens) {
  TestServer server;
  const auto text = [&](const char* more) {
    return text_of(choice_of(server.ask(kCompletions, completion("tee", more))));
  };
  EXPECT_EQ(text(R"(,"max_tokens":8)"), "efghijkl");
  EXPECT_EQ(text(R"(,"max_tokens":8,"stop":["g","k"])"), "ef");
  EXPECT_EQ(text(R"(,"max_tokens":8,"stop":["g","k"],"min_tokens":6)"), "efghij");
  EXPECT_EQ(text(R"(,"max_tokens":8,"stop":["ijk"],"min_tokens":6)"), "efgh");
  EXPECT_EQ(text(R"(,"max_tokens":8,"stop":["l"],"min_tokens":8)"), "efghijkl");
}

TEST(Answers, SeveralChoicesOfSeveralPrompts) {
  TestServer server;
  const auto with = [&](const std::string& more) {
    return std::string(R"({"prompt":["ab<|assistant|>","q<|assistant|>"],"n":2)") + more + "}";
  };
  const api::Answer whole = server.ask(kCompletions, with(""));
  const std::vector<std::string> expected = {"ab", "ab", "q", "q"};
  for (std::size_t index = 0; index < 4; ++index) {
    EXPECT_EQ(text_of(choice_of(whole, index)), expected[index]);
    EXPECT_EQ(choice_of(whole, index).find("index")->as_integer(),
              static_cast<std::int64_t>(index));
  }
  // Prompts count once: bos a b mark, bos q mark; tokens of all choices.
  EXPECT_EQ(json_of(whole).find("usage")->find("prompt_tokens")->as_integer(), 7);
  EXPECT_EQ(json_of(whole).find("usage")->find("completion_tokens")->as_integer(), 6);
  const std::vector<Json> events = events_of(server.ask(kCompletions, with(kUsage)));
  for (std::int64_t index = 0; index < 4; ++index) {
    EXPECT_EQ(streamed(events, index).text, expected[static_cast<std::size_t>(index)]);
    EXPECT_EQ(streamed(events, index).reason, "stop");
  }
  EXPECT_EQ(events.back().find("usage")->find("total_tokens")->as_integer(), 13);
  const std::vector<Json> chats =
      events_of(server.ask(kChats, chat("hi", R"(,"n":3,"stream":true)")));
  for (std::int64_t index = 0; index < 3; ++index) {
    EXPECT_EQ(streamed(chats, index).text, "hi");
    EXPECT_EQ(streamed(chats, index).role, "assistant");
  }
}

TEST(Answers, EchoGivesThePromptFirst) {
  TestServer server;
  for (const char* prompt : {"\"x\"", "[260,120]"}) {
    const auto body = [&](const char* more) {
      return fmt::format(R"({{"prompt":{},"echo":true,"max_tokens":2{}}})", prompt, more);
    };
    EXPECT_EQ(text_of(choice_of(server.ask(kCompletions, body("")))), "xcd");
    EXPECT_EQ(streamed(events_of(server.ask(kCompletions, body(kStream)))).text, "xcd");
  }
}

TEST(Answers, IdsAreUnique) {
  TestServer server;
  std::set<std::string> ids;
  for (int request = 0; request < 5; ++request) {
    ids.insert(json_of(server.ask(kChats, chat("a"))).find("id")->as_string());
    ids.insert(json_of(server.ask(kCompletions, completion("a"))).find("id")->as_string());
  }
  EXPECT_EQ(ids.size(), 10u);
}

// vllm#27300 and others: bytes wrong for parts of characters, or log probabilities lost in streams.
TEST(Answers, LogprobsOfAChatAreTheSameInAStream) {
  TestServer server;
  const std::string text = "he\u00E9\U0001F680!";
  const std::string more = R"(,"logprobs":true,"top_logprobs":3)";
  for (const std::string& stop :
       {std::string(), std::string(R"(,"stop":"\ud83d\ude80")"), std::string(R"(,"stop":"!")")}) {
    const Json whole = choice_of(server.ask(kChats, chat(text, more + stop)));
    const Json::Array& entries = whole.find("logprobs")->find("content")->as_array();
    std::string bytes;
    for (const Json& entry : entries) {
      for (const Json& byte : entry.find("bytes")->as_array()) {
        bytes += static_cast<char>(byte.as_integer());
      }
      EXPECT_EQ(entry.find("top_logprobs")->as_array().size(), 3u);
      EXPECT_EQ(entry.find("top_logprobs")->as_array()[0].find("logprob")->as_number(),
                entry.find("logprob")->as_number());
      EXPECT_LE(entry.find("logprob")->as_number(), 0);
    }
    EXPECT_EQ(bytes, text_of(whole));
    const StreamedChoice stream =
        streamed(events_of(server.ask(kChats, chat(text, more + stop + kStream))));
    EXPECT_EQ(stream.text, text_of(whole));
    EXPECT_EQ(Json(stream.logprobs).dump(0), Json(entries).dump(0));
  }
}

TEST(Answers, LogprobsOfACompletion) {
  TestServer server;
  const Json choice = choice_of(server.ask(kCompletions, repeated("\u00E9he", R"(,"logprobs":2)")));
  const Json& logprobs = *choice.find("logprobs");
  EXPECT_EQ(logprobs.find("tokens")->dump(0), R"(["bytes:\\xc3","bytes:\\xa9","he"])");
  EXPECT_EQ(logprobs.find("text_offset")->dump(0), "[0,0,1]");
  EXPECT_EQ(logprobs.find("token_logprobs")->as_array().size(), 3u);
  for (const Json& top : logprobs.find("top_logprobs")->as_array()) {
    EXPECT_EQ(top.as_object().size(), 2u);
  }
  // 0 asks for those of the chosen tokens alone; without a choice it is certain: its logarithm is
  // 0.
  const Json bare = choice_of(server.ask(kCompletions, repeated("a", R"(,"logprobs":0)")));
  EXPECT_EQ(bare.find("logprobs")->find("top_logprobs")->as_array()[0], Json::object().set("a", 0));
}

TEST(Answers, PrefixesThatWereSeenAreCounted) {
  TestServer server;
  const std::string prompt = completion(std::string(100, 'q'), R"(,"max_tokens":1)");
  server.ask(kCompletions, prompt);
  const Json usage = *json_of(server.ask(kCompletions, prompt)).find("usage");
  EXPECT_EQ(usage.find("prompt_tokens_details")->find("cached_tokens")->as_integer(), 96);
}

}  // namespace
}  // namespace nibble::serve
