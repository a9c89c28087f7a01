#include "net/connector.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "base/text.h"

namespace nibble::net {
namespace {

// When one of `left` addresses has had its share of the time; 0: there is no limit.
Nanoseconds end_of_turn(Nanoseconds end, std::size_t left) {
  if (end == 0) return 0;
  const Nanoseconds now = monotonic_now();
  return now + (end - now) / static_cast<Nanoseconds>(left);
}

NetFault fault_of(const error_code& code) {
  namespace errc = boost::system::errc;
  if (code == asio::error::timed_out) return NetFault::kConnectTimeout;
  const bool ours = code == errc::address_not_available || code == errc::address_in_use ||
                    code == errc::too_many_files_open || code == errc::no_buffer_space ||
                    code == errc::too_many_files_open_in_system || code == errc::permission_denied;
  return ours ? NetFault::kLocal : NetFault::kRefused;
}

void fail(Connected* connected, NetFault fault, std::string message) {
  connected->stream = nullptr;
  connected->fault = fault;
  connected->message = std::move(message);
}

}  // namespace

struct Connector::Names {
  explicit Names(asio::io_context& context) : resolver(context), answered(context.get_executor()) {}
  Tcp::resolver resolver;
  Event answered;
  bool literal = false;  // an address: nothing to look up
  bool known = false;
  bool asking = false;
  error_code code;
  std::vector<Tcp::endpoint> endpoints;
};

Connector::Connector(std::shared_ptr<Loops::Loop> loop, Url url, std::optional<TlsContext> tls,
                     Nanoseconds timeout)
    : loop_(std::move(loop)),
      url_(std::move(url)),
      tls_(std::move(tls)),
      timeout_(timeout),
      names_(std::make_shared<Names>(loop_->context)) {
  error_code no_address;
  const asio::ip::address address = asio::ip::make_address(url_.host, no_address);
  if (no_address) return;
  names_->endpoints.emplace_back(address, url_.port);
  names_->known = names_->literal = true;
}

// The system's look-up cannot be broken off: it goes on by itself where a waiter gives up.
asio::awaitable<void> Connector::look_up(Run* run) {
  const std::shared_ptr<Names> names = names_;
  if (!names->known && !names->asking) {
    names->asking = true;
    names->resolver.async_resolve(
        url_.host, std::to_string(url_.port), Tcp::resolver::numeric_service,
        [names](const error_code& code, const Tcp::resolver::results_type& found) {
          names->code = code;
          names->endpoints.clear();
          for (const auto& entry : found) names->endpoints.push_back(entry.endpoint());
          names->asking = false;
          names->known = !code;
          names->answered.notify_all();
        });
  }
  run->event = &names->answered;
  while (names->asking && run->interrupted == NetFault::kNone) co_await names->answered.wait();
  run->event = nullptr;
}

asio::awaitable<void> Connector::secure(Run* run, Connected* connected) {
  run->stream = connected->stream.get();
  auto handshake = Stream::handshake_as_client(connected->stream, *tls_, url_.host);
  std::string failure = co_await std::move(handshake);
  run->stream = nullptr;
  if (run->interrupted != NetFault::kNone || failure.empty()) co_return;
  fail(connected, NetFault::kTls, std::move(failure));
}

asio::awaitable<void> Connector::attempt(Run* run, Tcp::endpoint endpoint, Connected* connected) {
  *connected = {};
  Tcp::socket socket(asio::any_io_executor(loop_->context.get_executor()));
  error_code code;
  socket.open(endpoint.protocol(), code);
  if (code) {
    fail(connected, NetFault::kLocal, "no connection can be opened here: " + code.message());
    co_return;
  }
  connected->stream = std::make_shared<Stream>(std::move(socket));
  run->stream = connected->stream.get();
  co_await connected->stream->socket().async_connect(
      endpoint, asio::redirect_error(asio::use_awaitable, code));
  if (run->interrupted != NetFault::kNone) co_return;
  if (code) {
    fail(connected, fault_of(code), "no connection: " + code.message());
    co_return;
  }
  connected->stream->prepare();
}

// Each address in its turn until one answers; the last one's failure is what is told.
asio::awaitable<void> Connector::try_each(Run* run, Nanoseconds end, Connected* connected) {
  const std::vector<Tcp::endpoint> endpoints = names_->endpoints;
  for (std::size_t left = endpoints.size(); left > 0; --left) {
    run->expect_by(end_of_turn(end, left), NetFault::kConnectTimeout);
    co_await attempt(run, endpoints[endpoints.size() - left], connected);
    run->stream = nullptr;
    if (run->interrupted == NetFault::kConnectTimeout && left > 1) {
      run->interrupted = NetFault::kNone;
      continue;
    }
    if (run->interrupted != NetFault::kNone || connected->fault == NetFault::kNone) co_return;
  }
}

asio::awaitable<Connected> Connector::connect(Run* run) {
  Connected connected;
  const Nanoseconds end = timeout_ == 0 ? 0 : monotonic_now() + timeout_;
  run->expect_by(end, NetFault::kConnectTimeout);
  co_await look_up(run);
  if (run->interrupted == NetFault::kNone && names_->code) {
    fail(&connected, NetFault::kResolve,
         "the host's name is unknown: " + printable(names_->code.message()));
    co_return connected;
  }
  if (run->interrupted == NetFault::kNone) co_await try_each(run, end, &connected);
  if (run->interrupted == NetFault::kNone && connected.fault == NetFault::kNone && tls_) {
    run->expect_by(end, NetFault::kConnectTimeout);
    co_await secure(run, &connected);
  }
  if (run->interrupted != NetFault::kNone) {
    fail(&connected, run->interrupted, std::string(sentence_of(run->interrupted)));
  }
  if (connected.fault != NetFault::kNone && !names_->literal) names_->known = false;
  co_return connected;
}

}  // namespace nibble::net
