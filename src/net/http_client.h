// HTTP/1.1 client for one server: keep-alive, TLS, timeouts, and a time stamp for everything.
//
//   NIBBLE_ASSIGN_OR_RETURN(HttpClient client, HttpClient::make(loops, 0, url, {}));
//   loops.run(0, [&]() -> boost::asio::awaitable<void> {
//     HttpRequest request{.method = "POST", .target = url.target("/v1/completions"), .body = body};
//     const Exchange exchange = co_await client.exchange(std::move(request), sink);
//   });
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/exchange.h"
#include "net/headers.h"
#include "net/loop.h"
#include "net/url.h"

namespace nibble::net {

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";  // whole, with the prefix of the URL: url.target(...)
  Headers headers;           // besides Host, Content-Length and those of ClientOptions
  std::string body;
};

// 0: none.
struct Timeouts {
  Nanoseconds connect = 10'000'000'000;      // name, TCP and TLS together
  Nanoseconds first_byte = 600'000'000'000;  // of the body, from the start of sending
  Nanoseconds idle = 300'000'000'000;        // between two reads of the body
  Nanoseconds total = 0;                     // from the call to the last byte
};

struct ClientOptions {
  Timeouts timeouts;
  Headers headers;                       // of every request: API key, user agent
  bool verify_certificate = true;        // false: --insecure
  std::filesystem::path ca_file;         // PEM; empty: the system's authorities
  std::size_t max_idle_connections = 0;  // kept for reuse; 0: all. Never limits exchanges.
  bool keep_alive = true;                // false: a connection for each exchange
  std::size_t read_buffer_bytes = std::size_t{64} << 10;  // of each connection
};

struct Response {
  Exchange exchange;
  std::string body;
  bool ok() const { return exchange.ok(); }
};

// Belongs to one loop: exchange and fetch are called from its coroutines only; the object may be
// moved or destroyed while they run. There is no limit to how many run at once, and none waits for
// another.
//
// A request that fails on a connection kept from earlier, before any byte of the answer, is sent
// once more on a new one: the server had closed the idle connection. Nothing else is ever sent
// twice.
class HttpClient {
 public:
  static Result<HttpClient> make(const Loops& loops, std::size_t loop, Url url,
                                 ClientOptions options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // The sink must outlive the coroutine. Give a named request by std::move: g++ 12 miscompiles a
  // braced one within a co_await expression.
  boost::asio::awaitable<Exchange> exchange(HttpRequest request, BodySink& sink);
  // The same with the whole body; larger than max_bytes is kTooLarge.
  boost::asio::awaitable<Response> fetch(HttpRequest request,
                                         std::size_t max_bytes = std::size_t{64} << 20);

  // Ends all running exchanges with kCancelled and closes idle connections; from any thread. Later
  // exchanges run as ever.
  void cancel_all();

  const Url& url() const;

 private:
  struct Impl;
  explicit HttpClient(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nibble::net
