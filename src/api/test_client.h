// A client for tests of servers: one request, all that came back of it, and when.
//
//   TestClient client(server.url());
//   const Answer answer = client.ask("/v1/completions", R"({"prompt": "a", "stream": true})");
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/stream.h"
#include "base/check.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace nibble::api {

struct TokenArrival {
  Nanoseconds at = 0;
  std::optional<std::int64_t> tokens;
  TextKind kind = TextKind::kContent;
  std::string text;
};

struct Answer {
  net::Exchange exchange;
  std::string body;
  std::vector<TokenArrival> arrivals;  // events that bore tokens
  std::int64_t events = 0;
  bool error_event = false;
  bool malformed = false;
  std::string text;  // of all arrivals
  StreamEnd end;

  Nanoseconds ttft() const { return arrivals.front().at - exchange.stamps.send_start; }
};

class TestClient {
 public:
  // Without keep_alive each request has a connection of its own, and none is ever sent twice.
  explicit TestClient(const std::string& url, net::Timeouts timeouts = {}, bool keep_alive = true)
      : loops_(1), client_(make(loops_, url, {.timeouts = timeouts, .keep_alive = keep_alive})) {}

  Answer ask(const std::string& path, std::string body, const std::string& method = "POST",
             net::Headers headers = {}) {
    return ask_all(path, {std::move(body)}, method, std::move(headers)).front();
  }
  std::string page(const std::string& path) { return ask(path, "", "GET").body; }

  // All at the same time.
  std::vector<Answer> ask_all(const std::string& path, std::vector<std::string> bodies,
                              const std::string& method = "POST", net::Headers headers = {}) {
    std::vector<Answer> answers(bodies.size());
    std::size_t left = bodies.size();
    net::Event all_done(loops_.executor(0));
    NIBBLE_CHECK(loops_.run(0, [&]() -> boost::asio::awaitable<void> {
      for (std::size_t index = 0; index < bodies.size(); ++index) {
        loops_.spawn(0, [&, index]() -> boost::asio::awaitable<void> {
          net::HttpRequest request{.method = method, .target = path, .headers = headers};
          request.body = std::move(bodies[index]);
          co_await run(std::move(request), answers[index]);
          if (--left == 0) all_done.notify_all();
        });
      }
      while (left > 0) co_await all_done.wait();
    }));
    return answers;
  }

 private:
  class Sink final : public net::BodySink {
   public:
    Sink(Answer& answer, Dialect dialect) : answer_(answer), reader_(dialect) {}
    bool on_bytes(std::string_view bytes, Nanoseconds received_at) override {
      answer_.body += bytes;
      static_cast<void>(
          parser_.feed(bytes, [&](const net::SseEvent& event) { take(event, received_at); }));
      return true;
    }
    void end(Nanoseconds at) {
      static_cast<void>(parser_.finish([&](const net::SseEvent& event) { take(event, at); }));
      answer_.end = reader_.end();
    }

   private:
    void take(const net::SseEvent& event, Nanoseconds at) {
      ++answer_.events;
      const StreamItem& item = reader_.read(event.data, event.event);
      answer_.error_event |= item.is_error;
      answer_.malformed |= item.malformed;
      if (!item.bears_tokens) return;
      answer_.arrivals.push_back(
          {at, item.new_tokens, item.kind(), item.content + item.reasoning + item.tool});
      answer_.text += answer_.arrivals.back().text;
    }

    Answer& answer_;
    net::SseParser parser_;
    StreamReader reader_;
  };

  static net::HttpClient make(const net::Loops& loops, const std::string& url,
                              net::ClientOptions options) {
    const Result<net::Url> parsed = net::parse_url(url);
    NIBBLE_CHECK(parsed.ok());
    Result<net::HttpClient> client = net::HttpClient::make(loops, 0, *parsed, options);
    NIBBLE_CHECK(client.ok());
    return std::move(*client);
  }

  boost::asio::awaitable<void> run(net::HttpRequest request, Answer& answer) {
    const Dialect dialect = dialect_of_path(request.target).value_or(Dialect::kChat);
    Sink sink(answer, dialect);
    answer.exchange = co_await client_.exchange(std::move(request), sink);
    sink.end(answer.exchange.stamps.end);
  }

  net::Loops loops_;
  net::HttpClient client_;
};

}  // namespace nibble::api
