#include "net/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/check.h"
#include "net/server_state.h"

namespace nibble::net {
namespace {

constexpr int kBacklog = 4096;
constexpr Nanoseconds kPause = 10'000'000;    // after a connection that could not be taken
constexpr std::chrono::seconds kLastWait{2};  // for handlers of broken connections

asio::awaitable<void> accept_all(std::shared_ptr<ServerState> server) {
  std::size_t next = 0;
  while (!server->stopping) {
    const asio::any_io_executor executor = server->loops[next]->context.get_executor();
    error_code code;
    auto accepting =
        server->acceptor->async_accept(executor, asio::redirect_error(asio::use_awaitable, code));
    Tcp::socket socket = co_await std::move(accepting);
    if (server->stopping) co_return;
    if (code) {
      co_await sleep_for(kPause);
      continue;
    }
    ++server->accepted;
    auto connection = std::make_shared<Connection>(server, next, std::move(socket));
    asio::co_spawn(executor, Connection::serve(std::move(connection)),
                   [](const std::exception_ptr& thrown) { NIBBLE_CHECK(thrown == nullptr); });
    next = (next + 1) % server->loops.size();
  }
}

Result<Tcp::endpoint> endpoint_of(const ServerOptions& options) {
  constexpr int kMostPort = 65535;
  if (options.port < 0 || options.port > kMostPort) {
    return input_error("port {} is not between 0 and {}", options.port, kMostPort);
  }
  error_code code;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(host, code);
  if (code) {
    return input_error("\"{}\" is no address to listen on; give one such as 127.0.0.1 or 0.0.0.0",
                       options.host);
  }
  return Tcp::endpoint(address, static_cast<std::uint16_t>(options.port));
}

}  // namespace

ServerState::ServerState(const Loops& on, ServerOptions how)
    : options(std::move(how)), connections(on.size()) {
  for (std::size_t i = 0; i < on.size(); ++i) loops.push_back(on.share(i));
}

std::string_view ServerRequest::path() const {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view ServerRequest::query() const {
  const std::size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

struct HttpServer::Impl {
  std::shared_ptr<ServerState> state;

  void close_idle() const;
  void break_all() const;
  bool wait_until_empty(std::chrono::nanoseconds span) const;
  bool loops_run() const;
};

void HttpServer::Impl::close_idle() const {
  for (std::size_t i = 0; i < state->loops.size(); ++i) {
    asio::post(state->loops[i]->context, [state = state, i] {
      error_code ignored;
      if (i == 0 && state->acceptor) state->acceptor->close(ignored);
      for (Connection* connection : state->connections[i]) {
        if (connection->idle) connection->break_off();
      }
    });
  }
}

void HttpServer::Impl::break_all() const {
  for (std::size_t i = 0; i < state->loops.size(); ++i) {
    asio::post(state->loops[i]->context, [state = state, i] {
      for (Connection* connection : state->connections[i]) {
        connection->stream->reset();
        connection->lose();
      }
    });
  }
}

bool HttpServer::Impl::wait_until_empty(std::chrono::nanoseconds span) const {
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, span, [&] { return state->open == 0; });
}

bool HttpServer::Impl::loops_run() const {
  return !state->loops.front()->stopped;
}

HttpServer::HttpServer(const Loops& loops, ServerOptions options)
    : impl_(std::make_shared<Impl>()) {
  impl_->state = std::make_shared<ServerState>(loops, std::move(options));
}

HttpServer::~HttpServer() {
  stop(0);
}

Result<int> HttpServer::start(Handler handler) {
  ServerState& state = *impl_->state;
  NIBBLE_CHECK(!state.acceptor);
  NIBBLE_ASSIGN_OR_RETURN(const Tcp::endpoint endpoint, endpoint_of(state.options));
  if (!state.options.certificate_file.empty()) {
    NIBBLE_ASSIGN_OR_RETURN(TlsContext tls,
                            TlsContext::for_server(state.options.certificate_file.string(),
                                                   state.options.key_file.string()));
    state.tls = std::move(tls);
  }
  state.handler = std::move(handler);
  Tcp::acceptor acceptor(asio::any_io_executor(state.loops.front()->context.get_executor()));
  error_code code;
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(Tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(kBacklog, code);
  if (code) {
    const bool foreign = code == boost::system::errc::address_not_available;
    return run_error("cannot listen on {} port {}: {}; {}", state.options.host, state.options.port,
                     code.message(),
                     foreign ? "give an address of this machine" : "choose another port (0: any)");
  }
  const int port = acceptor.local_endpoint(code).port();
  state.acceptor.emplace(std::move(acceptor));
  asio::co_spawn(state.loops.front()->context, accept_all(impl_->state), asio::detached);
  return port;
}

void HttpServer::stop(Nanoseconds grace) {
  ServerState& state = *impl_->state;
  if (!state.acceptor) return;
  state.stopping = true;
  if (!impl_->loops_run()) return;  // all was destroyed with them
  impl_->close_idle();
  if (impl_->wait_until_empty(std::chrono::nanoseconds(grace))) return;
  impl_->break_all();
  impl_->wait_until_empty(kLastWait);
}

ServerCounts HttpServer::counts() const {
  ServerState& state = *impl_->state;
  const std::lock_guard lock(state.mutex);
  return {.connections = state.accepted,
          .open = state.open,
          .requests = state.requests,
          .refused = state.refused};
}

}  // namespace nibble::net
