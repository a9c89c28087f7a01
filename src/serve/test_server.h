// What the tests of the server share: a server over an engine with the test model, requests, the
// events of an answer, and a client that goes away.
//
//   TestServer server;
//   const api::Answer answer = server.ask("/v1/completions", R"({"prompt":"a"})");
//   EXPECT_EQ(json_of(answer).find("object")->as_string(), "text_completion");
#pragma once

#include <arpa/inet.h>
#include <chrono>
#include <fmt/core.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "api/test_client.h"
#include "serve/server.h"
#include "serve/test_model.h"

namespace nibble::serve {

inline constexpr Nanoseconds kMs = 1'000'000;
inline constexpr const char* kCompletions = "/v1/completions";
inline constexpr const char* kChats = "/v1/chat/completions";

inline constexpr std::string_view kTemplate =
    "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

class TestServer {
 public:
  explicit TestServer(engine::EngineOptions engine_options = {}, ServeOptions options = {},
                      std::int64_t context = 1024)
      : control(std::make_shared<TestControl>()) {
    engine_options.threads = 1;
    if (engine_options.kv_blocks == 0) engine_options.kv_blocks = 512;
    engine =
        must(engine::Engine::start(std::make_unique<TestModel>(control, context), engine_options));
    ServedModel model{.name = "test",
                      .path = "test",
                      .tokenizer = test_tokenizer(),
                      .chat_template = must(text::ChatTemplate::parse(kTemplate, "test")),
                      .end_ids = {kEnd}};
    options.version = "1.2.3";
    server = must(Server::start(options, *engine, std::move(model)));
    client = std::make_unique<api::TestClient>(server->url());
  }
  ~TestServer() { control->frozen = false; }

  api::Answer ask(const std::string& path, std::string body, net::Headers headers = {}) {
    return client->ask(path, std::move(body), "POST", std::move(headers));
  }
  api::Answer get(const std::string& path, net::Headers headers = {}) {
    return client->ask(path, "", "GET", std::move(headers));
  }
  Json state() { return Json::parse(get("/debug/state").body, "state").value(); }
  std::int64_t state(std::string_view key) { return state().find(key)->as_integer(); }

  // Within five seconds.
  bool becomes(const std::function<bool(const Json&)>& condition) {
    const Nanoseconds patience = monotonic_now() + 5000 * kMs;
    while (monotonic_now() < patience) {
      if (condition(state())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  // The engine has so many choices, running or waiting: a request that is only read has none yet.
  bool holds(std::int64_t choices) {
    return becomes([choices](const Json& state) {
      return state.find("running")->as_integer() + state.find("waiting")->as_integer() == choices;
    });
  }
  // Nothing runs, waits or holds a block any more, and all of it was counted right.
  bool comes_to_rest() {
    return becomes([](const Json& state) {
      for (const char* key : {"running", "waiting", "blocks_in_use", "active_requests"}) {
        if (state.find(key)->as_integer() != 0) return false;
      }
      return state.find("fault")->is_null();
    });
  }

  std::shared_ptr<TestControl> control;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Server> server;
  std::unique_ptr<api::TestClient> client;
};

inline Json json_of(const api::Answer& answer) {
  Result<Json> json = Json::parse(answer.body, "answer");
  EXPECT_TRUE(json.ok()) << answer.body;
  return json.ok() ? std::move(*json) : Json();
}

inline Json choice_of(const api::Answer& answer, std::size_t index = 0) {
  const Json json = json_of(answer);
  const Json* choices = json.find("choices");
  if (choices == nullptr || choices->as_array().size() <= index) {
    ADD_FAILURE() << "no choice " << index << " in " << answer.body;
    return {};
  }
  return choices->as_array()[index];
}

inline std::string text_of(const Json& choice) {
  const Json* message = choice.find("message");
  const Json* text = message == nullptr ? choice.find("text") : message->find("content");
  return text == nullptr ? "(no text)" : text->as_string();
}

struct Refused {
  int status = 0;
  std::string param;
  std::string message;
};

// The error of an answer.
inline Refused refused(const api::Answer& answer) {
  const Json json = json_of(answer);
  const Json* error = json.find("error");
  if (error == nullptr) return {answer.exchange.status, "", "no error: " + answer.body};
  EXPECT_EQ(error->find("code")->as_integer(), answer.exchange.status);
  EXPECT_TRUE(error->find("type")->is_string());
  const Json& param = *error->find("param");
  return {answer.exchange.status, param.is_null() ? "" : param.as_string(),
          error->find("message")->as_string()};
}

// The events of a stream, without [DONE], which must be the last.
inline std::vector<Json> events_of(const api::Answer& answer) {
  std::vector<Json> events;
  bool done = false;
  net::SseParser parser;
  static_cast<void>(parser.feed(answer.body, [&](const net::SseEvent& event) {
    EXPECT_FALSE(done) << "an event behind [DONE]";
    done = event.data == "[DONE]";
    if (!done) events.push_back(Json::parse(event.data, "event").value());
  }));
  EXPECT_TRUE(done) << answer.body;
  return events;
}

// The text, the reason and all entries of logprobs of one choice of a stream.
struct StreamedChoice {
  std::string text;
  std::string reason;
  std::string role;
  Json::Array logprobs;  // chat: of content
  std::int64_t pieces = 0;
};

inline StreamedChoice streamed(const std::vector<Json>& events, std::int64_t index = 0) {
  StreamedChoice whole;
  for (const Json& event : events) {
    for (const Json& choice : event.find("choices")->as_array()) {
      if (choice.find("index")->as_integer() != index) continue;
      EXPECT_TRUE(whole.reason.empty()) << "a piece behind the reason";
      const Json* delta = choice.find("delta");
      const Json* text = delta == nullptr ? choice.find("text") : delta->find("content");
      if (text != nullptr) whole.text += text->as_string();
      if (delta != nullptr && delta->find("role") != nullptr) {
        EXPECT_EQ(whole.pieces, 0) << "the role stands first";
        whole.role += delta->find("role")->as_string();
      }
      const Json* reason = choice.find("finish_reason");
      if (!reason->is_null()) whole.reason = reason->as_string();
      const Json* logprobs = choice.find("logprobs");
      if (const Json* content = logprobs->find("content")) {
        for (const Json& entry : content->as_array()) whole.logprobs.push_back(entry);
      }
      ++whole.pieces;
    }
  }
  return whole;
}

// A client that may go away at any moment.
class RudeClient {
 public:
  explicit RudeClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* plain = reinterpret_cast<const sockaddr*>(&address);
    NIBBLE_CHECK(::connect(socket_, plain, sizeof address) == 0);
  }
  ~RudeClient() { leave(); }
  RudeClient(const RudeClient&) = delete;
  RudeClient& operator=(const RudeClient&) = delete;

  void post(const std::string& path, const std::string& body) {
    send(fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", path,
                     body.size(), body));
  }
  void send(const std::string& bytes) {
    static_cast<void>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Until it holds `text`, or the server has closed.
  std::string read_until(const std::string& text) {
    std::string seen;
    char buffer[4096];
    while (seen.find(text) == std::string::npos) {
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      seen.append(buffer, static_cast<std::size_t>(count));
    }
    return seen;
  }
  void leave(bool reset = false) {
    if (socket_ < 0) return;
    const linger hard = {.l_onoff = 1, .l_linger = 0};
    if (reset) ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
};

}  // namespace nibble::serve
