#include "net/exchange.h"

namespace nibble::net {

std::string_view name_of(NetFault fault) {
  switch (fault) {
    case NetFault::kNone:
      return "none";
    case NetFault::kResolve:
      return "resolve";
    case NetFault::kRefused:
      return "refused";
    case NetFault::kConnectTimeout:
      return "connect_timeout";
    case NetFault::kTls:
      return "tls";
    case NetFault::kReset:
      return "reset";
    case NetFault::kTruncated:
      return "truncated";
    case NetFault::kProtocol:
      return "protocol";
    case NetFault::kFirstByteTimeout:
      return "first_byte_timeout";
    case NetFault::kIdleTimeout:
      return "idle_timeout";
    case NetFault::kTotalTimeout:
      return "total_timeout";
    case NetFault::kCancelled:
      return "cancelled";
    case NetFault::kTooLarge:
      return "too_large";
    case NetFault::kLocal:
      return "local";
  }
  return "unknown";
}

}  // namespace nibble::net
