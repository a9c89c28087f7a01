#include "drive/negotiate.h"

#include <chrono>
#include <set>
#include <thread>

#include "base/json.h"
#include "base/text.h"
#include "drive/test_drive.h"
#include "mock/request.h"
#include "net/http_server.h"
#include "net/test_support.h"

namespace nibble::drive {
namespace {

using boost::asio::awaitable;

// A server that refuses what it is told to, and counts two tokens a word and five of a template.
class PickyServer {
 public:
  explicit PickyServer(std::set<std::string> refuses, std::string key = "", int refusal = 400)
      : refuses_(std::move(refuses)),
        key_(std::move(key)),
        refusal_(refusal),
        loops_(1),
        server_(loops_, {.port = 0}) {
    const auto port =
        server_.start([this](net::ServerRequest request, net::ResponseWriter& writer) {
          return serve(std::move(request), writer);
        });
    EXPECT_TRUE(port.ok());
    url_ = fmt::format("http://127.0.0.1:{}", port.ok() ? *port : 0);
  }
  const std::string& url() const { return url_; }
  int requests() const { return requests_; }
  // Ids of at least `count` are refused; `told`: /server_info says so.
  void limit_ids(std::int64_t count, bool told = false) {
    id_end_ = count;
    tells_vocabulary_ = told;
  }
  std::int64_t refused_ids() const { return refused_ids_; }

 private:
  awaitable<void> serve(net::ServerRequest request, net::ResponseWriter& writer) {
    int status = 200;
    std::string body = answer(request, status);
    net::Headers headers;
    headers.emplace_back("Content-Type", "application/json");
    co_await writer.respond(status, std::move(headers), std::move(body));
  }

  std::string answer(const net::ServerRequest& request, int& status) {
    if (request.target == "/v1/models") return R"({"data": [{"id": "first"}, {"id": "second"}]})";
    if (tells_vocabulary_ && request.target == "/server_info") {
      return fmt::format(R"({{"model": {{"vocabulary": {}}}}})", id_end_.load());
    }
    if (request.method != "POST") {
      status = 404;
      return "{}";
    }
    ++requests_;
    const auto authorization = net::find_header(request.headers, "Authorization");
    if (!key_.empty() && authorization.value_or("") != "Bearer " + key_) {
      status = 401;
      return R"({"error": {"message": "no key"}})";
    }
    const Result<Json> json = Json::parse(request.body, "body");
    EXPECT_TRUE(json.ok());
    for (const std::string& field : refuses_) {
      if (!has(*json, field)) continue;
      status = refusal_;
      return fmt::format(R"({{"error": {{"message": "unknown field {}"}}}})", field);
    }
    const Json& prompt = *json->find("prompt");
    if (prompt.is_array() && highest(prompt) >= id_end_) {
      ++refused_ids_;
      status = refusal_;
      return R"({"error": {"message": "out of vocabulary"}})";
    }
    const std::size_t tokens =
        prompt.is_array() ? prompt.as_array().size()
                          : 2 * static_cast<std::size_t>(mock::count_words(prompt.as_string())) + 5;
    return fmt::format(R"({{"choices": [{{"text": "a b c d", "finish_reason": "length"}}],
        "usage": {{"prompt_tokens": {}, "completion_tokens": 4}}}})",
                       tokens);
  }

  static std::int64_t highest(const Json& prompt) {
    std::int64_t most = 0;
    for (const Json& id : prompt.as_array()) most = std::max(most, id.as_integer());
    return most;
  }

  static bool has(const Json& json, const std::string& field) {
    if (field == "ids") return json.find("prompt")->is_array();
    const Json* options = json.find("stream_options");
    return json.find(field) != nullptr || (options != nullptr && options->find(field) != nullptr);
  }

  std::set<std::string> refuses_;
  std::string key_;
  int refusal_;
  std::atomic<int> requests_ = 0;
  std::atomic<std::int64_t> id_end_ = INT32_MAX;
  std::atomic<bool> tells_vocabulary_ = false;
  std::atomic<std::int64_t> refused_ids_ = 0;
  net::Loops loops_;
  net::HttpServer server_;
  std::string url_;
};

const std::atomic<bool> kNever = false;

Wire agreed(const std::string& url, std::string model = "") {
  Target target = target_of(url);
  target.model = std::move(model);
  const Result<Wire> wire = negotiate(target, 0, kNever);
  EXPECT_TRUE(wire.ok()) << (wire.ok() ? "" : wire.error().message);
  return wire.ok() ? *wire : Wire{};
}

TEST(Negotiate, TakesTheFirstModelAndAllThatTheServerTakes) {
  PickyServer server({});
  const Wire wire = agreed(server.url());
  EXPECT_EQ(wire.target.model, "first");
  EXPECT_TRUE(wire.target.token_ids);
  EXPECT_TRUE(wire.target.continuous_usage);
  EXPECT_TRUE(wire.facts.token_ids);
  EXPECT_FALSE(wire.facts.tokens_per_word.has_value());
  EXPECT_EQ(wire.facts.template_tokens, 0);
  EXPECT_EQ(agreed(server.url(), "mine").target.model, "mine");
}

TEST(Negotiate, LeavesOutOneFieldThatIsRefused) {
  PickyServer server({"continuous_usage_stats"});
  const Wire wire = agreed(server.url());
  EXPECT_FALSE(wire.target.continuous_usage);
  EXPECT_TRUE(wire.target.usage);
  EXPECT_TRUE(wire.target.token_ids);
  ASSERT_FALSE(wire.notes.empty());
  EXPECT_NE(wire.notes[0].find("continuous_usage_stats"), std::string::npos) << wire.notes[0];
  EXPECT_NE(wire.notes[0].find("unknown field"), std::string::npos) << wire.notes[0];
}

TEST(Negotiate, WordsAreMeasuredWhereIdsAreRefused) {
  PickyServer server({"ids"});
  const Wire wire = agreed(server.url());
  EXPECT_FALSE(wire.facts.token_ids);
  EXPECT_TRUE(wire.target.continuous_usage);
  ASSERT_TRUE(wire.facts.tokens_per_word.has_value());
  EXPECT_NEAR(*wire.facts.tokens_per_word, 2, 1e-9);
  EXPECT_EQ(wire.facts.template_tokens, 5);
}

TEST(Negotiate, AVocabularyThatIsToldIsNotAskedFor) {
  for (const std::int64_t count : {1, 2, 300, 1500, 4096, 29'999}) {
    PickyServer server({});
    server.limit_ids(count, true);
    const Wire wire = agreed(server.url());
    EXPECT_EQ(wire.facts.vocabulary, count);
    EXPECT_TRUE(wire.facts.token_ids);
    EXPECT_EQ(server.refused_ids(), 0) << count;
    ASSERT_EQ(wire.notes.size(), 1U);
    EXPECT_NE(wire.notes[0].find(fmt::format("{} token ids", count)), std::string::npos);
  }
}

TEST(Negotiate, AVocabularyThatIsNotToldIsFound) {
  for (const int refusal : {400, 422, 500}) {
    for (const std::int64_t count : {2000, 4096, 29'999}) {
      PickyServer server({}, "", refusal);
      server.limit_ids(count);
      const Wire wire = agreed(server.url());
      EXPECT_EQ(wire.facts.vocabulary, count);
      EXPECT_TRUE(wire.facts.token_ids);
      EXPECT_EQ(wire.facts.template_tokens, 0);
      EXPECT_LE(server.requests(), 22);  // three as always, and 2^15 > 29,000 halved
    }
  }
}

TEST(Negotiate, AVocabularyLargeEnoughIsOfNoInterest) {
  for (const bool told : {false, true}) {
    PickyServer server({});
    server.limit_ids(30'000, told);
    const Wire wire = agreed(server.url());
    EXPECT_FALSE(wire.facts.vocabulary.has_value());
    EXPECT_TRUE(wire.notes.empty());
    EXPECT_EQ(server.requests(), 3);
  }
}

TEST(Negotiate, AServerThatStumblesOverAFieldIsAskedWithoutIt) {
  PickyServer server({"ids"}, "", 500);
  const Wire wire = agreed(server.url());
  EXPECT_FALSE(wire.facts.token_ids);
  EXPECT_TRUE(wire.target.usage);
}

TEST(Negotiate, LeavesOutSeveralFieldsWhenItMust) {
  PickyServer server({"continuous_usage_stats", "include_usage", "ids", "ignore_eos"});
  const Wire wire = agreed(server.url());
  EXPECT_FALSE(wire.target.continuous_usage);
  EXPECT_FALSE(wire.target.usage);
  EXPECT_FALSE(wire.facts.token_ids);
  EXPECT_FALSE(wire.target.ignore_eos);
  EXPECT_GE(wire.notes.size(), 4U);
}

TEST(Negotiate, APlainRequestThatIsRefusedIsAnError) {
  PickyServer server({"max_tokens"});
  const Result<Wire> wire = negotiate(target_of(server.url()), 0, kNever);
  ASSERT_FALSE(wire.ok());
  EXPECT_EQ(wire.error().kind, ErrorKind::kInput);
  EXPECT_NE(wire.error().message.find("unknown field max_tokens"), std::string::npos)
      << wire.error().message;
  EXPECT_NE(wire.error().message.find("first, second"), std::string::npos);
}

TEST(Negotiate, AMissingKeyIsAnErrorThatSaysSo) {
  PickyServer server({}, "sesame");
  const Result<Wire> wire = negotiate(target_of(server.url()), 0, kNever);
  ASSERT_FALSE(wire.ok());
  EXPECT_NE(wire.error().message.find("--api-key-env"), std::string::npos) << wire.error().message;
  Target with = target_of(server.url());
  with.client.headers.emplace_back("Authorization", "Bearer sesame");
  EXPECT_TRUE(negotiate(with, 0, kNever).ok());
}

TEST(Negotiate, NobodyThereIsAnErrorAtOnceOrAfterPatience) {
  int port = 0;
  {
    const net::Listener listener;
    port = listener.port();
  }
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  const Nanoseconds begin = monotonic_now();
  const Result<Wire> at_once = negotiate(target_of(url), 0, kNever);
  EXPECT_LT(monotonic_now() - begin, 2'000'000'000);
  ASSERT_FALSE(at_once.ok());
  EXPECT_EQ(at_once.error().kind, ErrorKind::kInput);
  EXPECT_NE(at_once.error().message.find("--ready-check-timeout-sec"), std::string::npos);

  std::unique_ptr<mock::RunningMock> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    auto mock = mock::start_mock(quick_script(), {.port = port});
    if (mock.ok()) late = std::make_unique<mock::RunningMock>(std::move(*mock));
  });
  const Result<Wire> waited = negotiate(target_of(url), 20'000'000'000, kNever);
  starter.join();
  EXPECT_TRUE(waited.ok()) << (waited.ok() ? "" : waited.error().message);
}

TEST(Negotiate, AServerThatFailsForReasonsOfItsOwnIsNotedAndLoaded) {
  mock::MockScript script = quick_script();
  script.faults = {{.kind = mock::FaultKind::kStatus, .every = 1, .status = 503}};
  mock::RunningMock mock = start(script);
  const Wire wire = agreed(mock.url());
  ASSERT_FALSE(wire.notes.empty());
  EXPECT_NE(wire.notes[0].find("503"), std::string::npos) << wire.notes[0];
}

TEST(Negotiate, AnInterruptEndsTheWaitForAServerThatHangs) {
  mock::MockScript script = quick_script();
  script.faults = {{.kind = mock::FaultKind::kHang, .every = 1, .head = false}};
  mock::RunningMock mock = start(script);
  std::atomic<bool> interrupted = false;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    interrupted = true;
  });
  const Nanoseconds begin = monotonic_now();
  const Result<Wire> wire = negotiate(target_of(mock.url()), 0, interrupted);
  user.join();
  EXPECT_LT(monotonic_now() - begin, 3'000'000'000);
  ASSERT_FALSE(wire.ok());
  EXPECT_EQ(wire.error().kind, ErrorKind::kRun);
}

}  // namespace
}  // namespace nibble::drive
