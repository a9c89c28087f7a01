#include "net/http_client.h"

#include <gtest/gtest.h>

#include "net/test_support.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;

struct Told {
  Exchange exchange;
  std::string body;
};

Told ask(const RawServer& server, ClientOptions options = {}) {
  TestClient client(server.port(), std::move(options));
  Recorder sink;
  Told told{client.get("/", sink), ""};
  told.body = sink.body;
  return told;
}

TEST(HttpClient, BodiesOfEachFraming) {
  const char* answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
                           "HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.0 200 OK\r\n\r\nhello"};
  for (const char* answer : answers) {
    const RawServer server(answer_with(answer));
    const Told told = ask(server);
    EXPECT_EQ(told.exchange.fault, NetFault::kNone) << told.exchange.message;
    EXPECT_TRUE(told.exchange.ok());
    EXPECT_EQ(told.body, "hello");
  }
}

TEST(HttpClient, SendsWhatItWasGiven) {
  std::string request;
  std::atomic<bool> got = false;
  int port = 0;
  {
    const RawServer server([&](int socket, int) {
      request = receive_until(socket, "BODY");
      got = true;
      send_all(socket, "HTTP/1.1 204 No Content\r\n\r\n");
    });
    port = server.port();
    TestClient client(server.port(), {.headers = {{"Authorization", "Bearer key"}}});
    Recorder sink;
    HttpRequest sent{
        .method = "POST", .target = "/v1/x?y=1", .headers = {{"X-A", "b"}}, .body = "BODY"};
    const Exchange exchange = client.send(std::move(sent), sink);
    EXPECT_EQ(exchange.status, 204) << exchange.message;
    EXPECT_EQ(sink.body, "");
  }
  ASSERT_TRUE(got);
  EXPECT_EQ(request,
            fmt::format("POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n"
                        "Authorization: Bearer key\r\nX-A: b\r\nContent-Length: 4\r\n\r\nBODY",
                        port));
}

struct Fault {
  const char* answer;
  NetFault fault;
  int status;
};

TEST(HttpClient, AnswersThatEndTooEarlyOrAreNone) {
  const Fault faults[] = {
      {"", NetFault::kReset, 0},
      {"HTTP/1.1 200 OK\r\nContent-", NetFault::kTruncated, 0},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", NetFault::kTruncated, 200},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", NetFault::kTruncated, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", NetFault::kTruncated, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", NetFault::kTruncated, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", NetFault::kTruncated,
       200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
       NetFault::kTruncated, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", NetFault::kProtocol, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", NetFault::kProtocol,
       200},
      {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", NetFault::kProtocol, 0},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n\x1f\x8b", NetFault::kProtocol, 200},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n\x1f\x8b\r\n0\r\n\r\n",
       NetFault::kProtocol, 200},
      {"HTTP/2 200 OK\r\n\r\n", NetFault::kProtocol, 0},
      {"SSH-2.0-OpenSSH_9.2\r\n", NetFault::kProtocol, 0},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", NetFault::kProtocol, 0},
  };
  for (const Fault& expected : faults) {
    const RawServer server(answer_with(expected.answer));
    const Exchange exchange = ask(server).exchange;
    EXPECT_EQ(name_of(exchange.fault), name_of(expected.fault)) << expected.answer;
    EXPECT_EQ(exchange.status, expected.status) << expected.answer;
    EXPECT_NE(exchange.message, "");
    EXPECT_FALSE(exchange.retried);
    EXPECT_EQ(server.connections(), 1) << expected.answer;
  }
}

TEST(HttpClient, InterimAnswersAreSkipped) {
  const RawServer server(
      answer_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  const Told told = ask(server);
  EXPECT_TRUE(told.exchange.ok()) << told.exchange.message;
  EXPECT_EQ(told.body, "ok");
}

// Once its first part is read: a reset takes away what is not.
TEST(HttpClient, ResetMidStream) {
  Recorder sink;
  const RawServer server([&](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    EXPECT_TRUE(eventually([&] { return sink.began.load(); }));
    close_with_reset(socket);
  });
  TestClient client(server.port());
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "reset") << exchange.message;
  EXPECT_EQ(sink.body, "ab");
  EXPECT_EQ(exchange.status, 200);
}

TEST(HttpClient, Refused) {
  Listener listener;
  const int port = listener.port();
  listener.close();
  TestClient client(port);
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "refused") << exchange.message;
  EXPECT_EQ(exchange.stamps.send_start, 0);
  EXPECT_GE(exchange.stamps.end, exchange.stamps.start);
}

TEST(HttpClient, UnknownHost) {
  TestClient client(Url{.host = "no-such-host.invalid"}, {});
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "resolve") << exchange.message;
}

TEST(HttpClient, NamesAreLookedUp) {
  const RawServer server(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  Url url = local_url(server.port());
  url.host = "localhost";  // may have ::1 first, where nobody listens
  TestClient client(url, {});
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_TRUE(exchange.ok()) << exchange.message;
}

double elapsed_ms(const Exchange& exchange) {
  return milliseconds(exchange.stamps.end - exchange.stamps.start);
}

TEST(HttpClient, ConnectTimeout) {
  const Listener listener(0);  // its queue holds one; further ones are not answered
  const RawClient first(listener.port());
  TestClient client(listener.port(), {.timeouts = {.connect = 80 * kMillisecond}});
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "connect_timeout") << exchange.message;
  EXPECT_GE(elapsed_ms(exchange), 80);
  EXPECT_LT(elapsed_ms(exchange), 1000);
}

TEST(HttpClient, FirstByteTimeout) {
  for (const char* answer : {"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    const RawServer server([answer](int socket, int) {
      receive_request(socket);
      send_all(socket, answer);
      receive_to_end(socket);
    });
    ClientOptions options{.timeouts = {.first_byte = 60 * kMillisecond}};
    const Exchange exchange = ask(server, options).exchange;
    EXPECT_EQ(name_of(exchange.fault), "first_byte_timeout") << exchange.message;
    EXPECT_GE(elapsed_ms(exchange), 60);
    EXPECT_LT(elapsed_ms(exchange), 1000);
  }
}

TEST(HttpClient, IdleTimeout) {
  const RawServer server([](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx");
    receive_to_end(socket);
  });
  ClientOptions options{.timeouts = {.first_byte = 5000 * kMillisecond, .idle = 60 * kMillisecond}};
  const Told told = ask(server, options);
  EXPECT_EQ(name_of(told.exchange.fault), "idle_timeout") << told.exchange.message;
  EXPECT_EQ(told.body, "x");
  EXPECT_LT(elapsed_ms(told.exchange), 1000);
}

TEST(HttpClient, ASinkMayHaveLessPatience) {
  class Impatient : public Recorder {
   public:
    Nanoseconds patience() const override { return body.empty() ? 0 : 60 * kMillisecond; }
  };
  const RawServer server([](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx");
    receive_to_end(socket);
  });
  Impatient sink;
  TestClient client(server.port());
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "idle_timeout") << exchange.message;
  EXPECT_LT(elapsed_ms(exchange), 1500);
}

// A stream that moves is not idle, however long it takes; its total is limited by its own limit.
TEST(HttpClient, TotalTimeout) {
  const RawServer server(trickle);
  ClientOptions options{.timeouts = {.idle = 1000 * kMillisecond, .total = 1500 * kMillisecond}};
  const Told told = ask(server, options);
  EXPECT_EQ(name_of(told.exchange.fault), "total_timeout") << told.exchange.message;
  EXPECT_GE(told.body.size(), 4U);
  EXPECT_GE(elapsed_ms(told.exchange), 1500);
  EXPECT_LT(elapsed_ms(told.exchange), 10'000);  // the server goes on for 20 s
}

TEST(HttpClient, CancelledWhileItStreamsWaitsAndConnects) {
  const RawServer streaming(trickle);
  const RawServer silent([](int socket, int) { receive_to_end(socket); });
  const Listener full(0);
  const RawClient first(full.port());
  for (const int port : {streaming.port(), silent.port(), full.port()}) {
    TestClient client(port);
    Recorder sink;
    std::atomic<bool> ended = false;
    std::thread canceller([&] {
      if (port == streaming.port()) eventually([&] { return sink.began.load(); });
      while (!ended) {  // nothing tells when the others have begun
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        client.client.cancel_all();
      }
    });
    const Exchange exchange = client.get("/", sink);
    ended = true;
    canceller.join();
    EXPECT_EQ(name_of(exchange.fault), "cancelled") << exchange.message;
    EXPECT_EQ(sink.body.empty(), port != streaming.port());
  }
}

TEST(HttpClient, WorksOnAfterCancelling) {
  const RawServer server(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  TestClient client(server.port());
  client.client.cancel_all();
  Recorder sink;
  EXPECT_TRUE(client.get("/", sink).ok());
}

TEST(HttpClient, TheSinkMayStop) {
  const RawServer server(trickle);
  TestClient client(server.port());
  Recorder sink(3);
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(exchange.fault, NetFault::kNone);
  EXPECT_TRUE(exchange.stopped);
  EXPECT_EQ(sink.body, "xxx");
}

TEST(HttpClient, AnEarlyAnswerDoesNotWaitForTheUpload) {
  const RawServer server([](int socket, int) {
    receive_some(socket);
    send_all(socket, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    receive_to_end(socket);
  });
  TestClient client(server.port());
  HttpRequest request{.method = "POST", .target = "/", .body = std::string(64 << 20, 'x')};
  Recorder sink;
  const Exchange exchange = client.send(std::move(request), sink);
  EXPECT_EQ(exchange.status, 413) << exchange.message;
  EXPECT_EQ(sink.body, "no");
}

// The kernel never had the last byte of this request.
TEST(HttpClient, AnUploadThatBreaksWasNotSent) {
  const RawServer server([](int socket, int) {
    receive_some(socket);
    close_with_reset(socket);
  });
  TestClient client(server.port());
  HttpRequest request{.method = "POST", .target = "/", .body = std::string(64 << 20, 'x')};
  Recorder sink;
  const Exchange exchange = client.send(std::move(request), sink);
  EXPECT_EQ(name_of(exchange.fault), "reset") << exchange.message;
  EXPECT_NE(exchange.stamps.send_start, 0);
  EXPECT_EQ(exchange.stamps.sent, 0);
}

TEST(HttpClient, RefusesToSendWhatWouldBeAnotherRequest) {
  const RawServer server([](int, int) {});
  const HttpRequest requests[] = {{.target = "/ HTTP/1.1\r\nX: y\r\n\r\n"},
                                  {.target = "v1"},
                                  {.method = "GE T"},
                                  {.headers = {{"X", "a\r\nY: b"}}},
                                  {.headers = {{"X: y", "a"}}},
                                  {.headers = {{"", "a"}}}};
  for (const HttpRequest& request : requests) {
    TestClient client(server.port());
    Recorder sink;
    const Exchange exchange = client.send(request, sink);
    EXPECT_EQ(name_of(exchange.fault), "local");
    EXPECT_NE(exchange.message, "");
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpClient, Fetch) {
  const RawServer server(answer_with("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello"));
  TestClient client(server.port());
  const Response all = client.fetch({}, 5);
  EXPECT_EQ(all.exchange.fault, NetFault::kNone);
  EXPECT_EQ(all.exchange.status, 404);
  EXPECT_EQ(all.body, "hello");
  EXPECT_FALSE(all.ok());
  const Response less = client.fetch({}, 4);
  EXPECT_EQ(name_of(less.exchange.fault), "too_large");
}

TEST(HttpClient, HeadHasNoBody) {
  const RawServer server(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
  TestClient client(server.port());
  Recorder sink;
  const Exchange exchange = client.send({.method = "HEAD"}, sink);
  EXPECT_TRUE(exchange.ok()) << exchange.message;
  EXPECT_EQ(find_header(exchange.headers, "content-length"), "5");
}

TEST(HttpClient, Stamps) {
  std::atomic<Nanoseconds> gives_body = 0;  // a busy client may be late, but never early
  std::atomic<Nanoseconds> gives_end = 0;
  const RawServer server([&](int socket, int) {
    receive_request(socket);
    send_all(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gives_body = monotonic_now();
    send_all(socket, "1\r\na\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gives_end = monotonic_now();
    send_all(socket, "0\r\n\r\n");
  });
  TestClient client(server.port());
  Recorder sink;
  const Nanoseconds before = monotonic_now();
  const Exchange exchange = client.get("/", sink);
  const Nanoseconds after = monotonic_now();
  const ExchangeStamps& stamps = exchange.stamps;
  const Nanoseconds order[] = {before,      stamps.start,      stamps.send_start, stamps.sent,
                               stamps.head, stamps.first_byte, stamps.end,        after};
  EXPECT_TRUE(std::is_sorted(std::begin(order), std::end(order)));
  ASSERT_EQ(sink.times.size(), 1U);
  EXPECT_EQ(sink.times[0], stamps.first_byte);
  EXPECT_GE(stamps.first_byte, gives_body);
  EXPECT_GE(stamps.end, gives_end);
}

// The client goes, and so do the loops, while exchanges are under way: nothing may crash or hang.
TEST(HttpClient, MayGoWhileItWorks) {
  const RawServer server(trickle);
  for (const bool loops_first : {false, true}) {
    Recorder sink;
    Loops loops;
    auto client = std::make_unique<HttpClient>(
        HttpClient::make(loops, 0, local_url(server.port()), {}).value());
    loops.spawn(0, [&]() -> awaitable<void> {
      HttpRequest request;
      const Exchange exchange = co_await client->exchange(std::move(request), sink);
      EXPECT_NE(exchange.fault, NetFault::kNone);
    });
    EXPECT_TRUE(eventually([&] { return sink.began.load(); }));
    if (loops_first) loops.stop();
    client.reset();
    loops.stop();
  }
}

TEST(HttpClient, BadAuthorityFileIsSaid) {
  const Loops loops;
  const Result<HttpClient> client =
      HttpClient::make(loops, 0, Url{.tls = true, .host = "x"}, {.ca_file = "/no/such.pem"});
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.error().message.find("/no/such.pem"), std::string::npos);
}

}  // namespace
}  // namespace nibble::net
