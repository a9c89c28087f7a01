// Connections that are kept for the next exchange, and the one retry when they were not.
#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/test_support.h"

namespace nibble::net {
namespace {

TEST(HttpReuse, KeepsConnectionsAlive) {
  const RawServer server([](int socket, int) {
    while (!receive_request(socket).empty()) {
      send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  TestClient client(server.port());
  for (int i = 0; i < 5; ++i) {
    Recorder sink;
    const Exchange exchange = client.get("/", sink);
    EXPECT_TRUE(exchange.ok()) << exchange.message;
    EXPECT_EQ(exchange.stamps.connected_anew, i == 0);
    EXPECT_EQ(exchange.stamps.connect_time > 0, i == 0);
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpReuse, DoesNotReuseWhatTheAnswerForbids) {
  const char* answers[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                           "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 X\r\n\r\n"};
  for (const char* answer : answers) {
    const RawServer server([answer](int socket, int) {
      while (!receive_request(socket).empty()) send_all(socket, answer);
    });
    TestClient client(server.port());
    for (int i = 0; i < 2; ++i) {
      Recorder sink;
      EXPECT_TRUE(client.get("/", sink).ok()) << answer;
      EXPECT_EQ(sink.body, "ok");
    }
    EXPECT_EQ(server.connections(), 2) << answer;
  }
}

// The server closes a kept connection as the next request arrives: nobody is to blame, the request
// goes again, once.
TEST(HttpReuse, RetriesOnceOnAStaleConnection) {
  std::mutex mutex;
  std::vector<std::string> requests;
  const RawServer server([&](int socket, int index) {
    for (int turn = 0; turn < 2; ++turn) {
      const std::string request = receive_request(socket);
      if (request.empty()) return;
      const std::lock_guard lock(mutex);
      requests.push_back(fmt::format("{}:{}", index, request.substr(4, 2)));
      if (turn == 1) return;  // closes without an answer
      send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  TestClient client(server.port());
  Recorder sink;
  EXPECT_TRUE(client.get("/a", sink).ok());
  const Exchange second = client.get("/b", sink);
  EXPECT_TRUE(second.ok()) << second.message;
  EXPECT_TRUE(second.retried);
  EXPECT_TRUE(second.stamps.connected_anew);
  EXPECT_GE(second.stamps.send_start, second.stamps.start);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(requests, (std::vector<std::string>{"0:/a", "0:/b", "1:/b"}));
}

TEST(HttpReuse, RetriesOnlyOnce) {
  const RawServer server([](int socket, int index) {
    receive_request(socket);
    if (index > 0) return;
    send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    receive_request(socket);
  });
  TestClient client(server.port());
  Recorder sink;
  EXPECT_TRUE(client.get("/", sink).ok());
  const Exchange second = client.get("/", sink);
  EXPECT_EQ(name_of(second.fault), "reset") << second.message;
  EXPECT_TRUE(second.retried);
  const Exchange third = client.get("/", sink);  // on a new connection: no retry
  EXPECT_EQ(name_of(third.fault), "reset") << third.message;
  EXPECT_FALSE(third.retried);
  EXPECT_EQ(server.connections(), 3);
}

// Part of an answer has come: the server has seen the request, so that it is never sent again.
TEST(HttpReuse, DoesNotRetryAfterTheFirstByte) {
  const RawServer server([](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    receive_request(socket);
    send_all(socket, "HTTP/1.1 2");
  });
  TestClient client(server.port());
  Recorder sink;
  EXPECT_TRUE(client.get("/", sink).ok());
  const Exchange second = client.get("/", sink);
  EXPECT_EQ(name_of(second.fault), "truncated") << second.message;
  EXPECT_FALSE(second.retried);
  EXPECT_EQ(server.connections(), 1);
}

// Three at once need three connections, of which one is kept: three more need two new ones.
TEST(HttpReuse, KeepsNoMoreThanItMay) {
  std::atomic<int> arrived = 0;
  const RawServer server([&arrived](int socket, int) {
    while (!receive_request(socket).empty()) {
      const int all = (++arrived + 2) / 3 * 3;
      while (arrived < all) std::this_thread::yield();
      send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  TestClient client(server.port(), {.max_idle_connections = 1});
  std::atomic<int> good = 0;
  for (const int connections : {3, 5}) {
    std::atomic<int> ended = 0;
    for (int i = 0; i < 3; ++i) {
      client.loops.spawn(0, [&]() -> boost::asio::awaitable<void> {
        Recorder sink;
        HttpRequest request;
        const Exchange exchange = co_await client.client.exchange(std::move(request), sink);
        good += exchange.ok() ? 1 : 0;
        ++ended;
      });
    }
    while (ended < 3) std::this_thread::yield();
    EXPECT_EQ(server.connections(), connections);
  }
  EXPECT_EQ(good, 6);
}

TEST(HttpReuse, SeesThatAnIdleConnectionWasClosed) {
  std::atomic<int> closed = 0;
  const RawServer server([&](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    if (end_is_received(socket)) ++closed;
  });
  TestClient client(server.port());
  Recorder sink;
  EXPECT_TRUE(client.get("/", sink).ok());
  ASSERT_TRUE(eventually([&] { return closed == 1; }));
  const Exchange second = client.get("/", sink);
  EXPECT_TRUE(second.ok());
  EXPECT_TRUE(second.stamps.connected_anew);
  EXPECT_FALSE(second.retried);
}

}  // namespace
}  // namespace nibble::net
