// HTTP/1.1 server: a coroutine a request, streamed answers, faults on demand.
//
//   HttpServer server(loops, {.port = 0});
//   NIBBLE_ASSIGN_OR_RETURN(const int port, server.start(
//       [](ServerRequest request, ResponseWriter& writer) -> boost::asio::awaitable<void> {
//         Headers headers = {{"Content-Type", "text/plain"}};  // g++ 12: not within co_await
//         co_await writer.respond(200, std::move(headers), std::move(request.body));
//       }));
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/headers.h"
#include "net/loop.h"

namespace nibble::net {

// The body of an answer that the server gives by itself.
struct OwnAnswer {
  std::string type;  // Content-Type
  std::string body;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  int port = 0;                    // 0: any that is free
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  Nanoseconds idle_timeout = 120'000'000'000;    // between requests of a kept connection
  Nanoseconds request_timeout = 60'000'000'000;  // from a request's first byte to its last
  std::filesystem::path certificate_file;        // PEM chain; empty: plain HTTP
  std::filesystem::path key_file;                // PEM
  // Puts the sentence that refuses a request (400, 408, 413, ...) into the form of the server's
  // other errors; none: plain text.
  std::function<OwnAnswer(int status, std::string_view sentence)> refusal;
};

struct ServerRequest {
  std::string method;
  std::string target;  // as sent, with the query
  Headers headers;
  std::string body;
  Nanoseconds received_at = 0;     // the last byte of the request
  std::string_view path() const;   // of target: before '?'
  std::string_view query() const;  // after it
};

// How the end of a body is told.
struct Framing {
  enum class Kind : std::uint8_t { kChunked, kLength, kClose };
  Kind kind = Kind::kChunked;
  std::uint64_t length = 0;
  static Framing chunked() { return {}; }
  static Framing of_length(std::uint64_t length) { return {Kind::kLength, length}; }
  static Framing until_close() { return {Kind::kClose, 0}; }
};

struct Connection;  // of this room

// The answer to one request; valid until the handler's coroutine ends. A handler that ends without
// head() answers 500; one that ends without finish() finishes, or breaks the connection where fewer
// bytes than promised were written.
class ResponseWriter {
 public:
  explicit ResponseWriter(Connection& connection, bool head_only, bool http_1_0, bool keep_alive);
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // The status line and the fields, with Date, Content-Length, Transfer-Encoding and Connection as
  // the framing needs them; a field that valid_header() refuses is left out. HTTP/1.0 peers get
  // kClose for kChunked. All of these give false when the peer is gone.
  boost::asio::awaitable<bool> head(int status, Headers headers, Framing framing);
  // A piece of the body; one chunk where the body is chunked. Handed to the kernel at once.
  boost::asio::awaitable<bool> write(std::string bytes);
  // The same without a coroutine. True: the kernel has all of it. False: the rest is kept, and
  // `co_await drain()`, before anything else is written, sends it and says what write() would.
  bool write_now(std::string_view bytes);
  boost::asio::awaitable<bool> drain();
  boost::asio::awaitable<bool> finish();
  // All three in one.
  boost::asio::awaitable<bool> respond(int status, Headers headers, std::string body);

  // For faults: bytes without any framing (head() is not needed), and the end of the connection:
  // in order, so that what was written still arrives, or by a reset.
  boost::asio::awaitable<bool> raw(std::string bytes);
  void close();
  void abort();

  // The peer has closed or reset the connection; known within moments, also while the handler
  // sleeps.
  bool peer_gone() const;
  // Called once when that becomes known, on this connection's loop; forgotten when the handler has
  // ended. For handlers that wait for something of their own.
  void when_gone(std::function<void()> call);
  // True: the time has come. False, at once: the peer is gone, or the server stops for good.
  boost::asio::awaitable<bool> sleep_until(Nanoseconds time);

  bool head_sent() const { return head_sent_; }
  Nanoseconds last_write() const { return last_write_; }  // when the kernel took the last bytes

 private:
  friend struct Connection;
  boost::asio::awaitable<bool> send(std::string bytes);
  boost::asio::awaitable<bool> end();

  Connection& connection_;
  Framing framing_;
  std::uint64_t written_ = 0;
  std::string rest_;  // of write_now()
  Nanoseconds last_write_ = 0;
  bool head_only_ = false;
  bool http_1_0_ = false;
  bool keep_alive_ = true;
  bool head_sent_ = false;
  bool finished_ = false;
  bool raw_ = false;
};

using Handler =
    std::function<boost::asio::awaitable<void>(ServerRequest request, ResponseWriter& writer)>;

struct ServerCounts {
  std::uint64_t connections = 0;  // accepted so far
  std::uint64_t open = 0;         // now
  std::uint64_t requests = 0;     // given to the handler
  std::uint64_t refused = 0;      // answered 400, 408, 413, 431, 501 or 505 without the handler
};

// Connections are spread over the loops in turn; a handler runs on its connection's loop. Broken
// requests never reach it. Pipelined requests are answered in order.
class HttpServer {
 public:
  HttpServer(const Loops& loops, ServerOptions options);
  ~HttpServer();  // stop(0)
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens and gives the port.
  Result<int> start(Handler handler);
  // Takes no more connections and requests, waits up to `grace` for answers that are under way,
  // then breaks them. From outside the loops; harmless when called again.
  void stop(Nanoseconds grace);

  ServerCounts counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace nibble::net
