#include "net/http_server.h"

#include <gtest/gtest.h>

#include "net/test_support.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;

awaitable<void> echo(ServerRequest request, ResponseWriter& writer) {
  Headers none;
  std::string text = request.method + " " + request.target + " " + request.body;
  co_await writer.respond(200, std::move(none), std::move(text));
}

// A server on a loop of its own.
struct Served {
  explicit Served(Handler handler, ServerOptions options = {})
      : server(loops, std::move(options)), port(server.start(std::move(handler)).value()) {}
  // What comes back for these bytes until the server closes.
  std::string answer_to(std::string_view bytes) const {
    const RawClient client(port);
    send_all(client.socket(), bytes);
    return receive_to_end(client.socket());
  }
  Loops loops;
  HttpServer server;
  int port;
};

std::string status_line(const std::string& answer) {
  return answer.substr(0, answer.find("\r\n"));
}

std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

TEST(HttpServer, Answers) {
  const Served served(echo);
  const std::string answer = served.answer_to(
      "POST /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(status_line(answer), "HTTP/1.1 200 OK");
  EXPECT_EQ(body_of(answer), "POST /a?b=c hi");
  EXPECT_NE(answer.find("\r\nContent-Length: 14\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nDate: "), std::string::npos);
}

TEST(HttpServer, PathAndQuery) {
  const ServerRequest both{.target = "/a/b?c=d?e"};
  EXPECT_EQ(both.path(), "/a/b");
  EXPECT_EQ(both.query(), "c=d?e");
  const ServerRequest path{.target = "/a"};
  EXPECT_EQ(path.path(), "/a");
  EXPECT_EQ(path.query(), "");
}

struct Refusal {
  std::string request;
  std::string status;
};

TEST(HttpServer, RefusesBadRequests) {
  const ServerOptions options{.max_header_bytes = 1000, .max_body_bytes = 100};
  const Refusal refusals[] = {
      {"hello\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: "
       "chunked\r\n\r\n",
       "501"},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(2000, 'x') + "\r\n\r\n", "431"},
      {"GET /" + std::string(2000, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n", "431"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", "413"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", "413"},
  };
  const Served served(echo, options);
  for (const Refusal& refusal : refusals) {
    const std::string answer = served.answer_to(refusal.request);
    EXPECT_EQ(status_line(answer).substr(0, 12), "HTTP/1.1 " + refusal.status)
        << refusal.request.substr(0, 80);
    EXPECT_NE(body_of(answer), "");
  }
  EXPECT_EQ(served.server.counts().refused, std::size(refusals));
  EXPECT_EQ(served.server.counts().requests, 0U);
}

TEST(HttpServer, RequestsCutAnywhere) {
  const std::string request =
      "\r\nPOST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "2\r\nab\r\n1;e=f\r\nc\r\n0\r\n\r\n";
  const Served served(echo);
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    const RawClient client(served.port);
    const int yes = 1;
    ::setsockopt(client.socket(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    send_all(client.socket(), std::string_view(request).substr(0, cut));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    send_all(client.socket(), std::string_view(request).substr(cut));
    EXPECT_EQ(body_of(receive_to_end(client.socket())), "POST /x abc") << cut;
  }
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  const Served served([](ServerRequest request, ResponseWriter& writer) -> awaitable<void> {
    // The first takes longest.
    const Nanoseconds delay = request.target == "/0" ? 50 : 0;
    co_await sleep_for(delay * kMillisecond);
    co_await echo(std::move(request), writer);
  });
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += fmt::format("POST /{} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{}\r\nb{:02}", i,
                            i == 49 ? "Connection: close\r\n" : "", i);
  }
  std::string answers = served.answer_to(requests);
  for (int i = 0; i < 50; ++i) {
    const std::string expected = fmt::format("POST /{} b{:02}", i, i);
    const std::size_t at = answers.find(expected);
    ASSERT_NE(at, std::string::npos) << i;
    answers.erase(0, at + expected.size());
  }
}

TEST(HttpServer, OldClientsGetABodyUntilTheEnd) {
  const Served served([](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers none;
    co_await writer.head(200, std::move(none), Framing::chunked());
    std::string text = "hello";
    co_await writer.write(std::move(text));
    co_await writer.finish();
  });
  const std::string old = served.answer_to("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(body_of(old), "hello");
  EXPECT_EQ(old.find("chunked"), std::string::npos);
  const std::string now =
      served.answer_to("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(body_of(now), "5\r\nhello\r\n0\r\n\r\n");
  const std::string head =
      served.answer_to("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(body_of(head), "");
}

TEST(HttpServer, ContinuesWhoWaitsForIt) {
  const Served served(echo);
  const RawClient client(served.port);
  send_all(client.socket(),
           "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
           "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(receive_until(client.socket(), "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  send_all(client.socket(), "ok");
  EXPECT_EQ(body_of(receive_to_end(client.socket())), "POST / ok");
}

TEST(HttpServer, SlowAndIdlePeersAreLetGo) {
  const Served impatient(echo, {.idle_timeout = 60 * kMillisecond});
  EXPECT_EQ(impatient.answer_to(""), "");
  const Served served(echo, {.request_timeout = 60 * kMillisecond});
  EXPECT_EQ(status_line(served.answer_to("GET / HT")), "HTTP/1.1 408 Request Timeout");
}

// The handler sleeps for a minute; the peer closes, or resets, and it must know long before.
TEST(HttpServer, NoticesThatThePeerIsGone) {
  for (const bool reset : {false, true}) {
    std::atomic<Nanoseconds> noticed = 0;
    std::atomic<Nanoseconds> polled = 0;
    std::atomic<bool> started = false;
    Served served([&](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
      started = true;
      const bool slept = co_await writer.sleep_until(monotonic_now() + 60'000 * kMillisecond);
      if (!slept) noticed = monotonic_now();
      std::string text = "x";
      const bool written = co_await writer.raw(std::move(text));
      if (!written && writer.peer_gone()) polled = monotonic_now();
    });
    RawClient client(served.port);
    send_all(client.socket(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_TRUE(eventually([&] { return started.load(); }));
    if (reset) close_with_reset(client.socket());
    const Nanoseconds closed = monotonic_now();
    client.close();
    EXPECT_TRUE(eventually([&] { return polled != 0; }));
    ASSERT_NE(noticed, 0);
    EXPECT_LT(milliseconds(noticed - closed), 20'000);
  }
}

// A peer that does not read blocks the writer; when it goes, the writer learns of it.
TEST(HttpServer, ABlockedWriteEndsWithThePeer) {
  std::atomic<bool> blocked = false;
  std::atomic<bool> ended = false;
  Served served([&](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers none;
    co_await writer.head(200, std::move(none), Framing::chunked());
    bool more = true;
    for (int i = 0; more; ++i) {
      std::string bytes(1 << 20, 'x');
      if (i == 4) blocked = true;
      more = co_await writer.write(std::move(bytes));
    }
    ended = true;
  });
  {
    const RawClient client(served.port);
    send_all(client.socket(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!blocked) {
      char buffer[65536];
      ::recv(client.socket(), buffer, sizeof buffer, MSG_DONTWAIT);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
}

TEST(HttpServer, FaultsOnDemand) {
  const Served served([](ServerRequest request, ResponseWriter& writer) -> awaitable<void> {
    Headers none;
    std::string text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nraw";
    if (request.target == "/raw") co_await writer.raw(std::move(text));
    if (request.target == "/abort") writer.abort();
    if (request.target == "/close") writer.close();
    if (request.target == "/short")
      co_await writer.head(200, std::move(none), Framing::of_length(5));
  });
  const auto get = [&](const std::string& target) {
    return served.answer_to("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n");
  };
  EXPECT_EQ(get("/raw"), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nraw");
  EXPECT_EQ(get("/close"), "");
  EXPECT_EQ(body_of(get("/short")), "");
  const RawClient client(served.port);
  send_all(client.socket(), "GET /abort HTTP/1.1\r\nHost: a\r\n\r\n");
  char byte = 0;
  EXPECT_EQ(::recv(client.socket(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  const RawClient silent(served.port);
  send_all(silent.socket(), "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_line(receive_to_end(silent.socket())), "HTTP/1.1 500 Internal Server Error");
}

TEST(HttpServer, HeaderFieldsCannotWriteFieldsOfTheirOwn) {
  const Served served([](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    Headers headers;
    headers.emplace_back("X-Bad", "a\r\nX-Injected: b");
    headers.emplace_back("X-Good", "c");
    std::string text;
    co_await writer.respond(200, std::move(headers), std::move(text));
  });
  const std::string answer =
      served.answer_to("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(answer.find("Injected"), std::string::npos);
  EXPECT_NE(answer.find("X-Good: c"), std::string::npos);
}

struct Stop {
  std::atomic<bool> started = false;
  std::atomic<bool> slept_to_the_end = false;
  awaitable<void> handle(ResponseWriter& writer, Nanoseconds span) {
    started = true;
    const bool slept = co_await writer.sleep_until(monotonic_now() + span);
    slept_to_the_end = slept;
    Headers none;
    std::string text = "done";
    co_await writer.respond(200, std::move(none), std::move(text));
  }
};

TEST(HttpServer, StopsGracefullyOrNot) {
  for (const bool graceful : {true, false}) {
    Stop stop;
    const Nanoseconds span = (graceful ? 150 : 60'000) * kMillisecond;
    Served served([&](ServerRequest, ResponseWriter& writer) { return stop.handle(writer, span); });
    const RawClient idle(served.port);
    const RawClient busy(served.port);
    send_all(busy.socket(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    while (!stop.started) std::this_thread::yield();
    std::string answer;
    std::thread reader([&] { answer = receive_to_end(busy.socket()); });
    const Nanoseconds begin = monotonic_now();
    served.server.stop(graceful ? 30'000 * kMillisecond : 0);
    const double took = milliseconds(monotonic_now() - begin);
    reader.join();
    EXPECT_EQ(body_of(answer), graceful ? "done" : "");
    EXPECT_EQ(stop.slept_to_the_end, graceful);
    EXPECT_LT(took, 20'000);  // neither all of its grace nor the handler's minute
    EXPECT_EQ(served.server.counts().open, 0U);
    EXPECT_EQ(receive_to_end(idle.socket()), "");
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = local_address(served.port);
    EXPECT_NE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
  }
}

TEST(HttpServer, TheLoopsMayStopFirst) {
  Served served([](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
    co_await writer.sleep_until(monotonic_now() + 60'000 * kMillisecond);
  });
  const RawClient client(served.port);
  send_all(client.socket(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  while (served.server.counts().requests == 0) std::this_thread::yield();
  served.loops.stop();
  served.server.stop(1000 * kMillisecond);
  EXPECT_EQ(served.server.counts().open, 0U);
}

TEST(HttpServer, SaysWhyItCannotListen) {
  const Served served(echo);
  const ServerOptions wrong[] = {{.port = served.port},
                                 {.port = -1},
                                 {.port = 65536},
                                 {.host = "no address"},
                                 {.certificate_file = "/no/such", .key_file = "/no/such"}};
  for (const ServerOptions& options : wrong) {
    Loops loops;
    HttpServer server(loops, options);
    const Result<int> port = server.start(echo);
    ASSERT_FALSE(port.ok());
    EXPECT_NE(port.error().message, "");
  }
}

}  // namespace
}  // namespace nibble::net
