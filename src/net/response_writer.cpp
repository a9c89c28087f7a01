#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "net/http_server.h"
#include "net/server_state.h"

namespace nibble::net {
namespace {

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text, size);
}

std::string_view reason_of(int status) {
  namespace http = boost::beast::http;
  const auto text = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {text.data(), text.size()};
}

bool has_no_body(int status) {
  return status / 100 == 1 || status == 204 || status == 304;
}

}  // namespace

ResponseWriter::ResponseWriter(Connection& connection, bool head_only, bool http_1_0,
                               bool keep_alive)
    : connection_(connection),
      head_only_(head_only),
      http_1_0_(http_1_0),
      keep_alive_(keep_alive) {}

asio::awaitable<bool> ResponseWriter::send(std::string bytes) {
  const bool sent = co_await connection_.write(std::move(bytes));
  last_write_ = monotonic_now();
  co_return sent;
}

asio::awaitable<bool> ResponseWriter::head(int status, Headers headers, Framing framing) {
  NIBBLE_CHECK(!head_sent_ && status >= 100 && status <= 999);
  head_sent_ = true;
  framing_ = framing;
  if (http_1_0_ && framing.kind == Framing::Kind::kChunked) framing_ = Framing::until_close();
  if (framing_.kind == Framing::Kind::kClose) keep_alive_ = false;
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, reason_of(status), date_now());
  for (const auto& [name, value] : headers) {
    if (valid_header(name, value)) text += fmt::format("{}: {}\r\n", name, value);
  }
  if (has_no_body(status)) {
    head_only_ = true;
  } else if (framing_.kind == Framing::Kind::kChunked) {
    text += "Transfer-Encoding: chunked\r\n";
  } else if (framing_.kind == Framing::Kind::kLength) {
    text += fmt::format("Content-Length: {}\r\n", framing_.length);
  }
  if (!keep_alive_) {
    text += "Connection: close\r\n";
  } else if (http_1_0_) {
    text += "Connection: keep-alive\r\n";
  }
  text += "\r\n";
  return send(std::move(text));
}

bool ResponseWriter::write_now(std::string_view bytes) {
  NIBBLE_CHECK(head_sent_ && !finished_ && rest_.empty());
  written_ += bytes.size();
  NIBBLE_CHECK(framing_.kind != Framing::Kind::kLength || written_ <= framing_.length);
  Stream::Pieces pieces;
  char size[24];  // of the chunk, in hexadecimal, and the end of its line
  // A chunk of no bytes would be the end of the body.
  if (!head_only_ && !bytes.empty()) {
    pieces[1] = asio::buffer(bytes);
    if (framing_.kind == Framing::Kind::kChunked) {
      const char* end = fmt::format_to(size, "{:x}\r\n", bytes.size());
      pieces[0] = asio::buffer(size, static_cast<std::size_t>(end - size));
      pieces[2] = asio::buffer("\r\n", 2);
    }
  }
  const bool whole = connection_.write_now(pieces, rest_);
  last_write_ = monotonic_now();
  return whole;
}

asio::awaitable<bool> ResponseWriter::drain() {
  if (rest_.empty()) co_return !connection_.gone;
  std::string rest = std::exchange(rest_, {});
  const bool sent = co_await send(std::move(rest));
  co_return sent;
}

asio::awaitable<bool> ResponseWriter::write(std::string bytes) {
  if (write_now(bytes)) co_return true;
  const bool sent = co_await drain();
  co_return sent;
}

asio::awaitable<bool> ResponseWriter::finish() {
  NIBBLE_CHECK(head_sent_ && !finished_);
  finished_ = true;
  const bool chunked = framing_.kind == Framing::Kind::kChunked;
  return send(chunked && !head_only_ ? "0\r\n\r\n" : "");
}

asio::awaitable<bool> ResponseWriter::respond(int status, Headers headers, std::string body) {
  const Framing framing = Framing::of_length(body.size());
  bool sent = co_await head(status, std::move(headers), framing);
  if (sent) sent = co_await write(std::move(body));
  if (sent) sent = co_await finish();
  co_return sent;
}

asio::awaitable<bool> ResponseWriter::raw(std::string bytes) {
  raw_ = true;
  keep_alive_ = false;
  return send(std::move(bytes));
}

void ResponseWriter::close() {
  raw_ = true;
  keep_alive_ = false;
  connection_.stream->finish_writing();
}

void ResponseWriter::abort() {
  keep_alive_ = false;
  connection_.stream->reset();
  connection_.lose();
}

bool ResponseWriter::peer_gone() const {
  return connection_.gone;
}

void ResponseWriter::when_gone(std::function<void()> call) {
  connection_.when_gone = std::move(call);
}

asio::awaitable<bool> ResponseWriter::sleep_until(Nanoseconds time) {
  if (connection_.gone) co_return false;
  connection_.sleeper.expires_at(time_point_of(time));
  error_code ignored;
  co_await connection_.sleeper.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return !connection_.gone;
}

// What the handler left undone; true: the connection may serve another request.
asio::awaitable<bool> ResponseWriter::end() {
  if (connection_.gone) co_return false;
  if (raw_) co_return false;
  if (!head_sent_) {
    Headers headers = {{"Content-Type", "text/plain; charset=utf-8"}};
    std::string text = "the server gave no answer\n";
    co_await respond(500, std::move(headers), std::move(text));
  }
  if (!finished_) co_await finish();
  const bool whole =
      framing_.kind != Framing::Kind::kLength || head_only_ || written_ == framing_.length;
  co_return (whole && keep_alive_);
}

}  // namespace nibble::net
