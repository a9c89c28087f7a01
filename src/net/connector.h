// New connections to the server of a client: its name's addresses, TCP, TLS.
//
//   Connector connector(loop, url, tls, timeout);
//   const Connected connected = co_await connector.connect(&run);
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/exchange.h"
#include "net/running_set.h"
#include "net/stream.h"
#include "net/url.h"

namespace nibble::net {

struct Connected {
  std::shared_ptr<Stream> stream;
  NetFault fault = NetFault::kNone;
  std::string message;
};

// The name is looked up once and remembered until a connection fails; who comes meanwhile waits for
// the same answer. Its addresses are tried in turn, each with its share of the time.
class Connector {
 public:
  Connector(std::shared_ptr<Loops::Loop> loop, Url url, std::optional<TlsContext> tls,
            Nanoseconds timeout);

  // Both must outlive the coroutine.
  asio::awaitable<Connected> connect(Run* run);
  const Url& url() const { return url_; }

 private:
  struct Names;
  asio::awaitable<void> look_up(Run* run);
  asio::awaitable<void> try_each(Run* run, Nanoseconds end, Connected* connected);
  asio::awaitable<void> attempt(Run* run, Tcp::endpoint endpoint, Connected* connected);
  asio::awaitable<void> secure(Run* run, Connected* connected);

  std::shared_ptr<Loops::Loop> loop_;
  Url url_;
  std::optional<TlsContext> tls_;
  Nanoseconds timeout_;
  std::shared_ptr<Names> names_;
};

}  // namespace nibble::net
