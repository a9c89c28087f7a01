// The server's end against the client's, and against the documented formats letter by letter.
#include "api/reply.h"

#include <gtest/gtest.h>

#include "api/error_text.h"
#include "base/json.h"
#include "net/sse.h"

namespace nibble::api {
namespace {

const ReplyNames kNames = {.id = "cmpl-1", .model = "m\"x", .created_s = 1717000000};
constexpr Dialect kAll[] = {Dialect::kCompletions, Dialect::kChat, Dialect::kSglang,
                            Dialect::kLlamacpp};

struct SeenReply {
  std::string content, reasoning;
  std::vector<std::int64_t> new_tokens;
  std::vector<std::string> errors;
  StreamEnd end;
};

SeenReply read_all(Dialect dialect, std::string_view stream) {
  SeenReply seen;
  StreamReader reader(dialect);
  net::SseParser parser;
  const auto take = [&](const net::SseEvent& event) {
    EXPECT_TRUE(event.data == "[DONE]" || Json::parse(event.data, "event").ok()) << event.data;
    const StreamItem& item = reader.read(event.data);
    EXPECT_FALSE(item.malformed) << item.message;
    seen.content += item.content;
    seen.reasoning += item.reasoning;
    if (item.bears_tokens) seen.new_tokens.push_back(item.new_tokens.value_or(-1));
    if (item.is_error) seen.errors.push_back(item.message);
  };
  EXPECT_TRUE(parser.feed(stream, take).ok());
  seen.end = reader.end();
  return seen;
}

TEST(ReplyWriter, WhatIsWrittenIsRead) {
  for (const Dialect dialect : kAll) {
    SCOPED_TRACE(dialect_name(dialect));
    ReplyWriter writer(dialect, kNames);
    std::string out;
    Usage usage = {.prompt_tokens = 12, .output_tokens = 0, .cached_tokens = 4};
    writer.role(out, &usage);
    for (const auto& [text, tokens] :
         {std::pair(" Hello", 1), std::pair(" \"big\"\n\xC3\xA9", 3)}) {
      usage.output_tokens = *usage.output_tokens + tokens;
      writer.piece(out, {.text = text, .usage = &usage});
    }
    writer.finish(out, "length", &usage, {.prompt_ms = 20, .output_ms = 40});
    writer.usage(out, usage);
    writer.done(out);
    const SeenReply seen = read_all(dialect, out);
    EXPECT_EQ(seen.content, " Hello \"big\"\n\xC3\xA9");
    EXPECT_EQ(seen.new_tokens, (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(seen.end.usage, usage);
    EXPECT_EQ(seen.end.usage_form, UsageForm::kContinuous);
    EXPECT_EQ(seen.end.finish_reason, "length");
    EXPECT_TRUE(seen.end.saw_done);
    EXPECT_FALSE(seen.end.data_after_done);
  }
}

TEST(ReplyWriter, ReasoningUnderEitherName) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    ReplyNames names = kNames;
    names.reasoning_field = field;
    ReplyWriter writer(Dialect::kChat, names);
    std::string out;
    writer.piece(out, {.kind = TextKind::kReasoning, .text = "hm"});
    writer.piece(out, {.kind = TextKind::kTool, .text = "{}"});
    writer.piece(out, {.text = "yes", .finish_reason = "stop"});
    EXPECT_NE(out.find(fmt::format("\"{}\":\"hm\"", field)), std::string::npos);
    const SeenReply seen = read_all(Dialect::kChat, out);
    EXPECT_EQ(seen.reasoning, "hm");
    EXPECT_EQ(seen.content, "yes");
    EXPECT_EQ(seen.new_tokens.size(), 3u);
    EXPECT_EQ(seen.end.finish_reason, "stop");
  }
}

TEST(ReplyWriter, LettersOfTheFormats) {
  const Usage usage = {.prompt_tokens = 6, .output_tokens = 1};
  std::string out;
  ReplyWriter completions(Dialect::kCompletions, kNames);
  completions.piece(out, {.text = " a"});
  completions.usage(out, usage);
  completions.done(out);
  EXPECT_EQ(
      out, R"(data: {"id":"cmpl-1","object":"text_completion","created":1717000000,"model":"m\"x",)"
           R"("choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null}]})"
           "\n\n"
           R"(data: {"id":"cmpl-1","object":"text_completion","created":1717000000,"model":"m\"x",)"
           R"("choices":[],"usage":{"prompt_tokens":6,"total_tokens":7,"completion_tokens":1}})"
           "\n\ndata: [DONE]\n\n");
  out.clear();
  ReplyWriter chat(Dialect::kChat, kNames);
  chat.role(out);
  chat.finish(out, "stop");
  const std::string head =
      R"(data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1717000000,"model":"m\"x",)"
      R"("choices":[{"index":0,"delta":)";
  EXPECT_EQ(out,
            head + R"({"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})" +
                "\n\n" + head + R"({"content":""},"logprobs":null,"finish_reason":"stop"}]})" +
                "\n\n");
  out.clear();
  ReplyWriter sglang(Dialect::kSglang, kNames);
  sglang.piece(out, {.text = " a", .usage = &usage});
  EXPECT_EQ(out, R"(data: {"text":" a","meta_info":{"id":"cmpl-1","finish_reason":null,)"
                 R"("prompt_tokens":6,"completion_tokens":1,"cached_tokens":0}})"
                 "\n\n");
  out.clear();
  ReplyWriter llamacpp(Dialect::kLlamacpp, kNames);
  llamacpp.piece(out, {.text = " a", .usage = &usage});
  llamacpp.done(out);
  EXPECT_EQ(out, R"(data: {"index":0,"content":" a","tokens":[],"stop":false,"id_slot":0,)"
                 R"("tokens_predicted":1,"tokens_evaluated":6})"
                 "\n\n");
}

TEST(ReplyWriter, Bodies) {
  const Usage usage = {.prompt_tokens = 6, .output_tokens = 3, .reasoning_tokens = 1};
  for (const Dialect dialect : kAll) {
    const ReplyWriter writer(dialect, {.id = "x.chunk\"", .model = "m"});
    const std::vector<Piece> pieces = {{.text = "a"}, {.text = "b"}};
    const std::string body =
        writer.body(pieces, "length", &usage, {.prompt_ms = 1, .output_ms = 2});
    const Json json = Json::parse(body, "body").value();
    const std::string object = dialect == Dialect::kChat ? "chat.completion" : "text_completion";
    if (dialect == Dialect::kChat || dialect == Dialect::kCompletions) {
      EXPECT_EQ(json.find("object")->as_string(), object);
    }
    const StreamItem item = read_body(dialect, body);
    EXPECT_EQ(item.content, "ab") << body;
    EXPECT_EQ(item.usage.output_tokens, 3);
    EXPECT_EQ(item.usage.prompt_tokens, 6);
    EXPECT_EQ(item.finish_reason, "length");
  }
  const ReplyWriter chat(Dialect::kChat, kNames);
  const std::vector<Piece> mixed = {{.kind = TextKind::kReasoning, .text = "hm"},
                                    {.text = "yes"},
                                    {.kind = TextKind::kTool, .text = "{}"}};
  const StreamItem item = read_body(Dialect::kChat, chat.body(mixed, "stop", &usage));
  EXPECT_EQ(item.reasoning + "/" + item.content + "/" + item.tool, "hm/yes/{}");
}

// What is not counted is not shown, or shown as zeros where the format has the fields always.
TEST(ReplyWriter, AnswersWithoutCounts) {
  const std::vector<Piece> pieces = {{.text = "a"}};
  const ReplyTimes times = {.prompt_ms = 1, .output_ms = 2};
  for (const Dialect dialect : {Dialect::kCompletions, Dialect::kChat}) {
    ReplyWriter writer(dialect, kNames);
    std::string out = writer.body(pieces, "stop", nullptr, times);
    EXPECT_EQ(Json::parse(out, "body")->find("usage"), nullptr);
    out.clear();
    writer.finish(out, "stop", nullptr, times);
    EXPECT_EQ(out.find("usage"), std::string::npos) << out;
    const Usage usage = {.prompt_tokens = 6, .output_tokens = 1};
    writer.finish(out, "stop", &usage);
    EXPECT_TRUE(
        out.ends_with(R"(}],"usage":{"prompt_tokens":6,"total_tokens":7,"completion_tokens":1}})"
                      "\n\n"))
        << out;
  }
  const Json sglang =
      Json::parse(ReplyWriter(Dialect::kSglang, kNames).body(pieces, "stop"), "body").value();
  EXPECT_EQ(sglang.find("meta_info")->find("completion_tokens")->as_integer(), 0);
  const Json llamacpp =
      Json::parse(ReplyWriter(Dialect::kLlamacpp, kNames).body(pieces, "stop", nullptr, times),
                  "body")
          .value();
  EXPECT_EQ(llamacpp.find("tokens_predicted")->as_integer(), 0);
  EXPECT_EQ(llamacpp.find("timings"), nullptr);
}

TEST(Errors, ReadBack) {
  for (const Dialect dialect : kAll) {
    EXPECT_EQ(error_text(error_body(dialect, 400, "bad \"x\"")), "bad \"x\"");
    std::string out;
    append_error_event(out, dialect, 500, "boom");
    EXPECT_EQ(read_all(dialect, out).errors, std::vector<std::string>{"boom"});
  }
  EXPECT_EQ(error_body(Dialect::kChat, 404, "no"),
            R"({"error":{"message":"no","type":"NotFoundError","param":null,"code":404}})");
  EXPECT_EQ(error_body(Dialect::kLlamacpp, 503, "Loading model"),
            R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})");
}

TEST(Models, ReadBack) {
  const std::vector<ModelInfo> models = {{"a/b", 32768}, {"c", std::nullopt}};
  const Result<std::vector<ModelInfo>> read = read_models(models_body(models, 7));
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].id, "a/b");
  EXPECT_EQ((*read)[0].max_model_len, 32768);
  EXPECT_EQ((*read)[1].max_model_len, std::nullopt);
  // OpenAI and llama.cpp give no length.
  EXPECT_EQ(
      read_models(R"({"object":"list","data":[{"id":"gpt","object":"model"},{"x":1},3]})")->size(),
      1u);
  EXPECT_EQ(read_models(R"({"error":{"message":"no key"}})").error().message,
            "/v1/models gave no list of models but: no key");
  EXPECT_FALSE(read_models("<html>").ok());
}

TEST(ReplyWriter, ChoicesAndLogprobs) {
  ReplyWriter chat(Dialect::kChat, {.id = "c", .model = "m", .created_s = 1});
  std::string out;
  chat.role(out, nullptr, 2);
  chat.piece(out, {.text = "a", .index = 2, .logprobs = R"({"content":[]})"});
  const std::string head =
      R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[)";
  EXPECT_EQ(out, head +
                     R"({"index":2,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                     R"("finish_reason":null}]})"
                     "\n\n" +
                     head +
                     R"({"index":2,"delta":{"content":"a"},"logprobs":{"content":[]},)"
                     R"("finish_reason":null}]})"
                     "\n\n");
  const WholeChoice choices[] = {{"x", "stop", "{}"}, {"y", "length"}};
  EXPECT_EQ(chat.body(choices, {.prompt_tokens = 1, .output_tokens = 2}),
            R"({"id":"c","object":"chat.completion","created":1,"model":"m","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"x"},"logprobs":{},)"
            R"("finish_reason":"stop"},)"
            R"({"index":1,"message":{"role":"assistant","content":"y"},"logprobs":null,)"
            R"("finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}})");
  const ReplyWriter text(Dialect::kCompletions, {.id = "t", .model = "m", .created_s = 1});
  EXPECT_EQ(text.body(std::span(choices).first(1), {}),
            R"({"id":"t","object":"text_completion","created":1,"model":"m","choices":[)"
            R"({"index":0,"text":"x","logprobs":{},"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":0,"total_tokens":0,"completion_tokens":0}})");
}

TEST(ReplyWriter, AnErrorNamesItsField) {
  EXPECT_EQ(error_body(Dialect::kChat, 400, "no", "top_p"),
            R"({"error":{"message":"no","type":"BadRequestError","param":"top_p","code":400}})");
  EXPECT_EQ(error_body(Dialect::kLlamacpp, 400, "no", "top_p"),
            R"({"error":{"message":"no","type":"invalid_request_error","code":400}})");
}

}  // namespace
}  // namespace nibble::api
