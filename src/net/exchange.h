// What a request and its answer were: the fault if there was one, and the time of everything.
//
//   const Exchange exchange = co_await client.exchange(std::move(request), sink);
//   if (exchange.fault != NetFault::kNone) report(name_of(exchange.fault), exchange.message);
//   const Nanoseconds ttfb = exchange.stamps.first_byte - exchange.stamps.send_start;
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/headers.h"

namespace nibble::net {

enum class NetFault : std::uint8_t {
  kNone,
  kResolve,           // the host's name is unknown
  kRefused,           // nobody listens there, or no way leads there
  kConnectTimeout,    // no connection in time; name, TCP and TLS together
  kTls,               // certificate or handshake
  kReset,             // the peer broke the connection, or closed it without an answer
  kTruncated,         // the answer ended before its framing said so
  kProtocol,          // not HTTP/1.1, or broken chunks
  kFirstByteTimeout,  // no byte of the body in time
  kIdleTimeout,       // the body stood still for too long
  kTotalTimeout,      // the exchange took too long altogether
  kCancelled,         // cancel_all()
  kTooLarge,          // fetch(): the body is larger than allowed
  kLocal,             // this host could not: no descriptor or port left; nothing was sent
};

std::string_view name_of(NetFault fault);  // "none", "resolve", "connect_timeout", ...

// All of base/clock.h; 0 is "has not happened".
struct ExchangeStamps {
  Nanoseconds start = 0;         // exchange() was called
  Nanoseconds send_start = 0;    // the connection stood, the first byte went to the kernel
  Nanoseconds sent = 0;          // the kernel has the last byte of the request
  Nanoseconds head = 0;          // the header fields of the answer were complete
  Nanoseconds first_byte = 0;    // of the body
  Nanoseconds end = 0;           // the last byte of the answer, or the fault
  Nanoseconds connect_time = 0;  // of the connection that was used: name, TCP and TLS
  bool connected_anew = false;   // false: kept alive from an earlier exchange
};

struct Exchange {
  NetFault fault = NetFault::kNone;
  std::string message;  // of a fault: one printable sentence
  int status = 0;       // 0: no answer came
  Headers headers;
  ExchangeStamps stamps;
  bool stopped = false;  // the sink asked for no more; not a fault
  bool retried = false;  // a kept-alive connection had been closed by the server; sent once more
  bool ok() const { return fault == NetFault::kNone && status == 200; }
};

// Takes the answer as it comes. Called on the loop of the client, never after exchange() returned.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual void on_head(int status, const Headers& headers) {
    static_cast<void>(status);
    static_cast<void>(headers);
  }
  // Bytes of the body, without the framing of chunks; received_at was taken as soon as the kernel
  // had given them. False: no more is wanted; the connection is closed.
  virtual bool on_bytes(std::string_view bytes, Nanoseconds received_at) = 0;
  // How long the next bytes may take, instead of the client's idle timeout: of a sink that knows
  // that what matters has come. 0: no opinion.
  virtual Nanoseconds patience() const { return 0; }
};

}  // namespace nibble::net
