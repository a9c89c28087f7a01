#include "net/connector.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "base/text.h"

namespace nibble::net {
namespace {

constexpr Nanoseconds kWithoutLimit =
    3'600'000'000'000;  // shared among addresses when there is none

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
  names_->known = true;
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
  auto handshake = Stream::handshake_as_client(connected->stream, *tls_, url_.host);
  std::string failure = co_await std::move(handshake);
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

asio::awaitable<Connected> Connector::connect(Run* run) {
  Connected connected;
  const Nanoseconds end = monotonic_now() + (timeout_ == 0 ? kWithoutLimit : timeout_);
  run->expect(end, timeout_ == 0 ? 0 : 1, NetFault::kConnectTimeout);
  co_await look_up(run);
  if (run->interrupted == NetFault::kNone && names_->code) {
    fail(&connected, NetFault::kResolve,
         "the host's name is unknown: " + printable(names_->code.message()));
    co_return connected;
  }
  const std::vector<Tcp::endpoint> endpoints = names_->endpoints;
  for (std::size_t i = 0; i < endpoints.size() && run->interrupted == NetFault::kNone; ++i) {
    const Nanoseconds now = monotonic_now();
    const Nanoseconds share = (end - now) / static_cast<Nanoseconds>(endpoints.size() - i);
    run->expect(now, timeout_ == 0 ? 0 : std::max<Nanoseconds>(share, 1),
                NetFault::kConnectTimeout);
    co_await attempt(run, endpoints[i], &connected);
    if (run->interrupted == NetFault::kNone && connected.fault == NetFault::kNone) break;
    run->stream = nullptr;
    const bool another = i + 1 < endpoints.size();
    if (another && run->interrupted == NetFault::kConnectTimeout) {
      run->interrupted = NetFault::kNone;
    }
  }
  if (run->interrupted == NetFault::kNone && connected.fault == NetFault::kNone && tls_) {
    run->expect(end, timeout_ == 0 ? 0 : 1, NetFault::kConnectTimeout);
    co_await secure(run, &connected);
  }
  run->stream = nullptr;
  if (run->interrupted != NetFault::kNone) {
    fail(&connected, run->interrupted, std::string(sentence_of(run->interrupted)));
  }
  const bool literal = endpoints.size() == 1 && url_.host == endpoints[0].address().to_string();
  if (connected.fault != NetFault::kNone && !literal) names_->known = false;
  co_return connected;
}

}  // namespace nibble::net
