#include <cstdlib>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "net/http_server.h"
#include "net/test_support.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;

// A certificate that nobody has signed but itself, for 127.0.0.1 or for a name.
class Certificate {
 public:
  explicit Certificate(const std::string& name) {
    const std::string command = fmt::format(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=nibble-test -addext subjectAltName={} -keyout '{}' -out '{}' >/dev/null 2>&1",
        name, key().string(), file().string());
    NIBBLE_CHECK(std::system(command.c_str()) == 0);
  }
  std::filesystem::path file() const { return folder_.path() / "certificate.pem"; }
  std::filesystem::path key() const { return folder_.path() / "key.pem"; }

 private:
  TemporaryFolder folder_;
};

class Tls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    certificate = std::make_unique<Certificate>("IP:127.0.0.1");
    stranger = std::make_unique<Certificate>("DNS:elsewhere.example");
  }
  static void TearDownTestSuite() {
    certificate.reset();
    stranger.reset();
  }
  static ServerOptions with(const Certificate& of) {
    return {.certificate_file = of.file(), .key_file = of.key()};
  }
  static std::unique_ptr<Certificate> certificate;
  static std::unique_ptr<Certificate> stranger;
};
std::unique_ptr<Certificate> Tls::certificate;
std::unique_ptr<Certificate> Tls::stranger;

// Streams the request's body back in pieces.
awaitable<void> stream_back(ServerRequest request, ResponseWriter& writer) {
  Headers none;
  const bool close = request.target == "/close";
  const Framing framing = close ? Framing::until_close() : Framing::chunked();
  co_await writer.head(200, std::move(none), framing);
  for (std::size_t at = 0; at < request.body.size(); at += 50'000) {
    std::string piece = request.body.substr(at, 50'000);
    co_await writer.write(std::move(piece));
  }
  co_await writer.finish();
}

struct Secured {
  explicit Secured(ServerOptions options)
      : server(loops, std::move(options)), port(server.start(stream_back).value()) {}
  Url url() const {
    Url url = local_url(port);
    url.tls = true;
    return url;
  }
  Loops loops;
  HttpServer server;
  int port;
};

TEST_F(Tls, UntrustedIsRefused) {
  const Secured secured(with(*certificate));
  TestClient client(secured.url(), {});
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "tls");
  EXPECT_NE(exchange.message.find("self-signed"), std::string::npos) << exchange.message;
  EXPECT_NE(exchange.message.find("--insecure"), std::string::npos) << exchange.message;
  EXPECT_EQ(secured.server.counts().requests, 0U);
}

TEST_F(Tls, AnotherNameIsRefusedThoughTrusted) {
  const Secured secured(with(*stranger));
  TestClient client(secured.url(), {.ca_file = stranger->file()});
  Recorder sink;
  const Exchange exchange = client.get("/", sink);
  EXPECT_EQ(name_of(exchange.fault), "tls") << exchange.message;
}

TEST_F(Tls, TrustedByItsFileOrByOption) {
  const Secured secured(with(*certificate));
  for (const bool by_file : {true, false}) {
    ClientOptions options;
    if (by_file) {
      options.ca_file = certificate->file();
    } else {
      options.verify_certificate = false;
    }
    TestClient client(secured.url(), options);
    std::string body(1 << 20, '\0');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 250);
    for (int turn = 0; turn < 3; ++turn) {
      const Response response = client.fetch({.method = "POST", .body = body});
      EXPECT_TRUE(response.ok()) << response.exchange.message;
      EXPECT_TRUE(response.body == body);
      EXPECT_EQ(response.exchange.stamps.connected_anew, turn == 0);
    }
    const Response last =
        client.fetch({.method = "POST", .target = "/close", .body = "to the end"});
    EXPECT_TRUE(last.ok()) << last.exchange.message;
    EXPECT_EQ(last.body, "to the end");
  }
}

// A body that comes while "100 Continue" is being written is not waited for once more.
TEST_F(Tls, ContinuesWhoDoesNotWaitForIt) {
  const Secured secured(with(*certificate));
  TestClient client(secured.url(), {.timeouts = {.first_byte = 2000 * kMillisecond},
                                    .headers = {{"Expect", "100-continue"}},
                                    .verify_certificate = false});
  for (const std::size_t size : {1U, 10'000U, 20'000U, 100'000U}) {
    const std::string body(size, 'x');
    const Response response = client.fetch({.method = "POST", .body = body});
    EXPECT_TRUE(response.ok()) << size << " bytes: " << response.exchange.message;
    EXPECT_TRUE(response.body == body);
  }
}

TEST_F(Tls, PlainServersAndPlainClients) {
  const RawServer plain([](int socket, int) {
    receive_some(socket);
    send_all(socket, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  Url url = local_url(plain.port());
  url.tls = true;
  TestClient secure(url, {});
  Recorder sink;
  EXPECT_EQ(name_of(secure.get("/", sink).fault), "tls");
  const Secured secured(with(*certificate));
  TestClient simple(secured.port);
  const Exchange exchange = simple.get("/", sink);
  EXPECT_NE(exchange.fault, NetFault::kNone);
}

TEST_F(Tls, AHandshakeThatHangsIsAConnectTimeout) {
  const RawServer silent([](int socket, int) { receive_to_end(socket); });
  Url url = local_url(silent.port());
  url.tls = true;
  TestClient client(url, {.timeouts = {.connect = 60 * kMillisecond}});
  Recorder sink;
  EXPECT_EQ(name_of(client.get("/", sink).fault), "connect_timeout");
}

TEST_F(Tls, CancelledMidStream) {
  Loops loops;
  HttpServer server(loops, with(*certificate));
  const Result<int> port =
      server.start([](ServerRequest, ResponseWriter& writer) -> awaitable<void> {
        Headers none;
        co_await writer.head(200, std::move(none), Framing::chunked());
        bool more = true;
        while (more) {
          std::string text = "x";
          co_await writer.write(std::move(text));
          more = co_await writer.sleep_until(monotonic_now() + 5 * kMillisecond);
        }
      });
  ASSERT_TRUE(port.ok());
  Url url = local_url(*port);
  url.tls = true;
  TestClient client(url, {.verify_certificate = false});
  Recorder sink;
  std::thread canceller([&] {
    EXPECT_TRUE(eventually([&] { return sink.began.load(); }));
    client.client.cancel_all();
  });
  EXPECT_EQ(name_of(client.get("/", sink).fault), "cancelled");
  EXPECT_NE(sink.body, "");
  canceller.join();
}

}  // namespace
}  // namespace nibble::net
