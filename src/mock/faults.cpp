#include "mock/faults.h"

#include <fmt/core.h>

#include "api/reply.h"

namespace nibble::mock {
namespace {

using boost::asio::awaitable;

constexpr std::string_view kFaultMessage = "a fault of the script";
constexpr std::string_view kPage =
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n"
    "<body><h1>Sign in to continue</h1></body></html>\n";
// A chunk that promises 4096 bytes and holds fewer.
constexpr std::string_view kHalfChunk = "1000\r\ndata: {\"id\":\"cmpl-cut";
constexpr std::string_view kNoChunk = "zz\r\ndata: {}\n\n\r\n";
constexpr std::uint64_t kPromised = 4096;

}  // namespace

bool strikes_at_once(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kStatus:
    case FaultKind::kRefuse:
    case FaultKind::kErrorBody:
    case FaultKind::kHtml:
      return true;
    case FaultKind::kReset:
      return fault.after_tokens == 0;
    default:
      return false;
  }
}

awaitable<void> strike_at_once(Shared& shared, net::ResponseWriter& writer, Fault fault,
                               std::string truth) {
  if (fault.kind == FaultKind::kRefuse) {
    shared.refuse(from_milliseconds(fault.ms.value_or(0)));
    writer.abort();
    co_return;
  }
  if (fault.kind == FaultKind::kReset) {
    writer.abort();
    co_return;
  }
  const bool page = fault.kind == FaultKind::kHtml;
  const int status = fault.kind == FaultKind::kStatus ? fault.status : 200;
  net::Headers headers = {{"Content-Type", page ? "text/html" : "application/json"},
                          {"X-Nibble-Truth", std::move(truth)}};
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  const int code = status == 200 ? 500 : status;
  std::string body =
      page ? std::string(kPage) : api::error_body(api::Dialect::kChat, code, kFaultMessage);
  co_await writer.respond(status, std::move(headers), std::move(body));
}

std::string fault_event(const Fault& fault, api::Dialect dialect) {
  std::string event;
  if (fault.kind == FaultKind::kBadJson) {
    event = "data: {\"choices\":[{\"index\":0,\n\n";
  } else {
    api::append_error_event(event, dialect, 500, kFaultMessage);
  }
  return event;
}

std::string fault_body(const Fault& fault, api::Dialect dialect) {
  if (fault.kind == FaultKind::kBadJson) return R"({"choices":[{"index":0,)";
  return api::error_body(dialect, 500, kFaultMessage);
}

awaitable<void> break_connection(net::ResponseWriter& writer, Fault fault) {
  if (fault.kind == FaultKind::kReset) {
    writer.abort();
    co_return;
  }
  if (!writer.head_sent()) {
    net::Headers headers = {{"Content-Type", "application/json"}};
    const net::Framing framing = fault.kind == FaultKind::kBadFraming
                                     ? net::Framing::chunked()
                                     : net::Framing::of_length(kPromised);
    const bool sent = co_await writer.head(200, std::move(headers), framing);
    if (!sent) co_return;
    std::string beginning = fault.kind == FaultKind::kBadFraming ? "" : "{\"id\":\"cmpl-cut";
    if (!beginning.empty()) co_await writer.write(std::move(beginning));
  } else if (fault.kind == FaultKind::kTruncate) {
    std::string half(kHalfChunk);
    co_await writer.raw(std::move(half));
  }
  if (fault.kind == FaultKind::kBadFraming) {
    std::string nonsense(kNoChunk);
    co_await writer.raw(std::move(nonsense));
  }
  writer.close();
}

}  // namespace nibble::mock
