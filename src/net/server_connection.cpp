#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/check.h"
#include "net/server_state.h"

namespace nibble::net {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMostWaiting = std::size_t{256} << 10;  // read ahead of the handler
constexpr Nanoseconds kHandshakeLimit = 10'000'000'000;
constexpr Nanoseconds kPartingLimit = 1'000'000'000;

// In the server's list of connections while it is served.
struct Listed {
  explicit Listed(Connection& of) : connection(of) { list().insert(&connection); }
  ~Listed() { list().erase(&connection); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  std::unordered_set<Connection*>& list() const {
    return connection.server->connections[connection.loop_index];
  }
  Connection& connection;
};

}  // namespace

Connection::Connection(std::shared_ptr<ServerState> of, std::size_t on, Tcp::socket socket)
    : server(std::move(of)),
      loop_index(on),
      loop(server->loops[on]),
      stream(std::make_shared<Stream>(std::move(socket))),
      sleeper(loop->context),
      readable_(loop->context.get_executor()),
      drained_(loop->context.get_executor()) {
  stream->prepare();
  const std::lock_guard lock(server->mutex);
  ++server->open;
}

Connection::~Connection() {
  const std::lock_guard lock(server->mutex);
  --server->open;
  server->changed.notify_all();
}

void Connection::lose() {
  gone = true;
  readable_.notify_all();
  drained_.notify_all();
  sleeper.cancel();
  if (when_gone) std::exchange(when_gone, nullptr)();
}

void Connection::break_off() {
  stream->close();
  lose();
}

asio::awaitable<void> Connection::pump(std::shared_ptr<Connection> self) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);
  while (!self->gone) {
    error_code code;
    const std::size_t count =
        co_await self->stream->read(asio::buffer(buffer.get(), kReadBytes), code);
    self->last_read_ = monotonic_now();
    if (code) break;
    if (self->discarding_) continue;
    self->input_.append(buffer.get(), count);
    self->readable_.notify_all();
    while (self->input_.size() - self->taken_ >= kMostWaiting && !self->gone &&
           !self->discarding_) {
      co_await self->drained_.wait();
    }
  }
  // A write that waits for a peer that is gone ends too.
  error_code ignored;
  self->stream->socket().cancel(ignored);
  self->lose();
}

// TLS; false: there is nobody to talk to.
asio::awaitable<bool> Connection::greet(std::shared_ptr<Connection> self) {
  self->sleeper.expires_after(std::chrono::nanoseconds(kHandshakeLimit));
  self->sleeper.async_wait([weak = std::weak_ptr(self)](const error_code& code) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (!code && connection != nullptr) connection->break_off();
  });
  auto handshake = Stream::handshake_as_server(self->stream, *self->server->tls);
  const std::string failure = co_await std::move(handshake);
  self->sleeper.cancel();
  co_return failure.empty() && !self->gone;
}

asio::awaitable<void> Connection::serve(std::shared_ptr<Connection> self) {
  const Listed listed(*self);
  bool more = true;
  if (self->server->tls) more = co_await greet(self);
  if (!more) co_return;
  asio::co_spawn(self->loop->context, pump(self), asio::detached);
  while (more && !self->server->stopping) more = co_await serve_one(self);
  if (!self->gone) co_await part(self);
  self->break_off();
}

void Connection::feed(RequestParser& parser) {
  const std::string_view waiting = std::string_view(input_).substr(taken_);
  if (waiting.empty()) return;
  taken_ += parser.feed(waiting);
  if (taken_ == input_.size()) {
    input_.clear();
    taken_ = 0;
  } else if (taken_ > input_.size() / 2) {  // moves each byte once on average
    input_.erase(0, taken_);
    taken_ = 0;
  }
  drained_.notify_all();
}

// True: the parser has a request, or refuses one.
asio::awaitable<bool> Connection::read_request(std::shared_ptr<Connection> self,
                                               RequestParser* parser) {
  const ServerOptions& options = self->server->options;
  Nanoseconds deadline = monotonic_now() + options.idle_timeout;
  bool begun = false;
  bool continued = false;
  while (true) {
    self->feed(*parser);
    self->idle = !parser->started();
    if (parser->state() != RequestParser::State::kMore) co_return true;
    if (self->gone || (self->idle && self->server->stopping)) co_return false;
    if (!begun && parser->started()) {
      begun = true;
      deadline = monotonic_now() + options.request_timeout;
    }
    if (!continued && parser->expects_continue()) {
      continued = true;
      std::string bytes = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await self->write(std::move(bytes));
      continue;  // the body may have come meanwhile
    }
    const bool woken = co_await self->readable_.wait_until(deadline);
    if (woken) continue;
    if (begun) {
      std::string sentence = "the request did not arrive in time";
      co_await refuse(self, 408, std::move(sentence));
    }
    co_return false;
  }
}

asio::awaitable<void> Connection::refuse(std::shared_ptr<Connection> self, int status,
                                         std::string sentence) {
  ++self->server->refused;
  ResponseWriter writer(*self, false, false, false);
  const auto& form = self->server->options.refusal;
  OwnAnswer answer = form ? form(status, sentence)
                          : OwnAnswer{"text/plain; charset=utf-8", std::move(sentence) + "\n"};
  Headers headers = {{"Content-Type", std::move(answer.type)}};
  co_await writer.respond(status, std::move(headers), std::move(answer.body));
}

asio::awaitable<bool> Connection::answer(std::shared_ptr<Connection> self, RequestParser* parser) {
  ServerRequest request{.method = parser->method(),
                        .target = parser->target(),
                        .headers = parser->headers(),
                        .body = parser->take_body(),
                        .received_at = self->last_read_};
  const bool keep = parser->keep_alive() && !self->server->stopping;
  ResponseWriter writer(*self, request.method == "HEAD", parser->http_1_0(), keep);
  ++self->server->requests;
  asio::awaitable<void> handling = self->server->handler(std::move(request), writer);
  co_await std::move(handling);
  self->when_gone = nullptr;
  const bool more = co_await writer.end();
  co_return more;
}

// True: another request may come.
asio::awaitable<bool> Connection::serve_one(std::shared_ptr<Connection> self) {
  const RequestParser::Options limits{.max_header_bytes = self->server->options.max_header_bytes,
                                      .max_body_bytes = self->server->options.max_body_bytes};
  RequestParser parser(limits);
  const bool arrived = co_await read_request(self, &parser);
  if (!arrived) co_return false;
  bool more = false;
  if (parser.state() == RequestParser::State::kRefused) {
    std::string sentence = parser.refusal();
    co_await refuse(self, parser.refusal_status(), std::move(sentence));
  } else {
    more = co_await answer(self, &parser);
  }
  co_return more && !self->gone;
}

// The last bytes arrive only if the peer's own do not meet a closed socket, which would answer them
// with a reset: they are read and dropped until the peer has closed too, or a second has passed.
asio::awaitable<void> Connection::part(std::shared_ptr<Connection> self) {
  self->discarding_ = true;
  self->input_.clear();
  self->taken_ = 0;
  self->drained_.notify_all();
  self->sleeper.expires_after(std::chrono::nanoseconds(kPartingLimit));
  self->sleeper.async_wait([weak = std::weak_ptr(self)](const error_code& code) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (!code && connection != nullptr) connection->break_off();
  });
  co_await Stream::say_goodbye(self->stream);
  while (!self->gone) co_await self->readable_.wait();
}

bool Connection::write_now(const Stream::Pieces& pieces, std::string& rest) {
  if (gone) return false;
  error_code code;
  std::size_t done = stream->try_write(pieces, code);
  if (code) {
    lose();
    return false;
  }
  if (done == asio::buffer_size(pieces)) return true;
  for (const asio::const_buffer& piece : pieces) {
    const asio::const_buffer left = piece + done;  // empty where all of it is done
    done -= piece.size() - left.size();
    rest.append(static_cast<const char*>(left.data()), left.size());
  }
  return false;
}

// Small pieces go to the kernel without waiting for it; only what it does not take at once does.
asio::awaitable<bool> Connection::write(std::string bytes) {
  if (gone) co_return false;
  error_code code;
  const Stream::Pieces pieces = {asio::buffer(bytes)};
  std::size_t done = stream->try_write(pieces, code);
  while (!code && !gone && done < bytes.size()) {
    done += co_await stream->write_some(asio::buffer(bytes) + done, code);
  }
  if (code && !gone) lose();
  co_return done == bytes.size();
}

}  // namespace nibble::net
