// The client against the server: both ends are ours.
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "net/http_client.h"
#include "net/http_server.h"
#include "net/sse.h"
#include "net/test_support.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;

Headers event_stream() {
  return {{"Content-Type", "text/event-stream"}};
}

struct Pair {
  explicit Pair(Handler handler, std::size_t loops_of_server = 1, ServerOptions options = {})
      : server_loops(loops_of_server),
        server(server_loops, std::move(options)),
        client(server.start(std::move(handler)).value()) {}
  Loops server_loops;
  HttpServer server;
  TestClient client;
};

TEST(HttpPair, UploadsAMegabyte) {
  Pair pair([](ServerRequest request, ResponseWriter& writer) -> awaitable<void> {
    Headers none;
    co_await writer.respond(200, std::move(none), std::move(request.body));
  });
  std::string body(1 << 20, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 + i / 251);
  for (int i = 0; i < 3; ++i) {
    const Response response = pair.client.fetch({.method = "POST", .body = body});
    EXPECT_TRUE(response.ok()) << response.exchange.message;
    EXPECT_TRUE(response.body == body);
    EXPECT_EQ(response.exchange.stamps.connected_anew, i == 0);
  }
}

TEST(HttpPair, ChunksOf100Kilobytes) {
  Pair pair([](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers headers = event_stream();
    co_await writer.head(200, std::move(headers), Framing::chunked());
    for (int i = 0; i < 20; ++i) {
      std::string event = "data: " + std::string(100'000, static_cast<char>('a' + i)) + "\n\n";
      co_await writer.write(std::move(event));
    }
    co_await writer.finish();
  });
  Recorder sink;
  const Exchange exchange = pair.client.get("/", sink);
  EXPECT_TRUE(exchange.ok()) << exchange.message;
  SseParser parser;
  int events = 0;
  const Result<> fed = parser.feed(sink.body, [&](const SseEvent& event) {
    EXPECT_TRUE(event.data == std::string(100'000, static_cast<char>('a' + events)));
    ++events;
  });
  EXPECT_TRUE(fed.ok());
  EXPECT_EQ(events, 20);
}

// A client that stands still in its sink lets the kernel's buffers fill: pieces are then taken in
// part, and what is left is drained, in order and in one chunk each.
TEST(HttpPair, WhatTheKernelDoesNotTakeAtOnceIsDrained) {
  constexpr int kPieces = 24;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  std::atomic<int> at_once = 0;
  std::atomic<int> drained = 0;
  std::atomic<bool> full = false;
  Pair pair([&](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers headers = event_stream();
    co_await writer.head(200, std::move(headers), Framing::chunked());
    if (writer.write_now("first ")) ++at_once;
    for (int i = 0; i < kPieces; ++i) {
      const std::string piece(kBytes, static_cast<char>('a' + i));
      if (writer.write_now(piece)) continue;
      full = true;
      const bool sent = co_await writer.drain();
      if (sent) ++drained;
    }
    co_await writer.finish();
  });
  class SlowAtFirst : public Recorder {
   public:
    explicit SlowAtFirst(const std::atomic<bool>& full) : full_(full) {}
    bool on_bytes(std::string_view bytes, Nanoseconds received_at) override {
      const bool was_full = !body.empty() || eventually([this] { return full_.load(); });
      EXPECT_TRUE(was_full);
      return Recorder::on_bytes(bytes, received_at);
    }

   private:
    const std::atomic<bool>& full_;
  };
  SlowAtFirst sink(full);
  const Exchange exchange = pair.client.get("/", sink);
  EXPECT_TRUE(exchange.ok()) << exchange.message;
  std::string whole = "first ";
  for (int i = 0; i < kPieces; ++i) whole.append(kBytes, static_cast<char>('a' + i));
  EXPECT_TRUE(sink.body == whole);
  EXPECT_EQ(at_once, 1);
  EXPECT_GT(drained, 0);
}

TEST(HttpPair, WriteNowSaysThatThePeerIsGone) {
  std::atomic<int> answer = -1;  // of write_now() and drain()
  Pair pair([&](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers headers = event_stream();
    co_await writer.head(200, std::move(headers), Framing::chunked());
    writer.write_now("data: 1\n\n");
    co_await writer.sleep_until(monotonic_now() + 60'000 * kMillisecond);
    const bool now = writer.write_now("data: 2\n\n");
    const bool later = co_await writer.drain();
    answer = 2 * static_cast<int>(now) + static_cast<int>(later);
  });
  Recorder sink(1);  // wants no more
  EXPECT_TRUE(pair.client.get("/", sink).stopped);
  const Nanoseconds gone = monotonic_now();
  EXPECT_TRUE(eventually([&] { return answer >= 0; }));
  EXPECT_EQ(answer, 0);
  EXPECT_LT(milliseconds(monotonic_now() - gone), 20'000);  // of the minute that it would sleep
}

// Counts the events of a stream and checks that they are its own and in order.
class StreamCheck : public BodySink {
 public:
  explicit StreamCheck(std::string name) : name_(std::move(name)) {}
  bool on_bytes(std::string_view bytes, Nanoseconds) override {
    const Result<> fed = parser_.feed(bytes, [this](const SseEvent& event) {
      right_ = right_ && event.data == fmt::format("{} {}", name_, events_);
      ++events_;
    });
    return fed.ok();
  }
  int events() const { return right_ ? events_ : -1; }

 private:
  std::string name_;
  SseParser parser_;
  int events_ = 0;
  bool right_ = true;
};

TEST(HttpPair, AThousandStreams) {
  constexpr int kStreams = 1000;
  constexpr int kEvents = 20;
  ASSERT_TRUE(allow_descriptors(2 * kStreams + 100).ok());
  Pair pair(
      [](ServerRequest request, ResponseWriter& writer) -> awaitable<void> {
        Headers headers = event_stream();
        co_await writer.head(200, std::move(headers), Framing::chunked());
        for (int i = 0; i < kEvents; ++i) {
          co_await writer.sleep_until(request.received_at + i * 20 * kMillisecond);
          std::string event = fmt::format("data: {} {}\n\n", request.target, i);
          co_await writer.write(std::move(event));
        }
        co_await writer.finish();
      },
      2);
  std::atomic<int> whole = 0;
  std::atomic<int> running = kStreams;
  std::atomic<int> most_at_once = 0;
  std::atomic<int> at_once = 0;
  const auto start = [&](int i) {
    pair.client.loops.spawn(0, [&, i]() -> awaitable<void> {
      most_at_once = std::max<int>(most_at_once, ++at_once);
      StreamCheck sink(fmt::format("/{}", i));
      HttpRequest request{.target = fmt::format("/{}", i)};
      const Exchange exchange = co_await pair.client.client.exchange(std::move(request), sink);
      if (exchange.ok() && sink.events() == kEvents) ++whole;
      --at_once;
      --running;
    });
  };
  // From the loop itself, which begins all of them before it turns to what the first receives.
  pair.client.loops.run(0, [&]() -> awaitable<void> {
    for (int i = 0; i < kStreams; ++i) start(i);
    co_return;
  });
  EXPECT_TRUE(eventually([&] { return running == 0; }));
  EXPECT_EQ(whole, kStreams);
  EXPECT_EQ(most_at_once, kStreams);  // no hidden limit of the pool
  EXPECT_EQ(pair.server.counts().requests, static_cast<std::uint64_t>(kStreams));
}

}  // namespace
}  // namespace nibble::net
