#include "serve/respond.h"

#include "api/reply.h"

namespace nibble::serve {

net::Headers headers_for(const ServeOptions& options, std::string type) {
  net::Headers headers = {{"Content-Type", std::move(type)}, {"Cache-Control", "no-cache"}};
  if (!options.allow_origin.empty()) {
    headers.emplace_back("Access-Control-Allow-Origin", options.allow_origin);
  }
  return headers;
}

boost::asio::awaitable<void> respond_error(const ServeOptions& options, net::ResponseWriter& writer,
                                           Refusal refusal) {
  net::Headers headers = headers_for(options, "application/json");
  // A step or two: by then an answer may have ended. Clients wait longer from try to try.
  if (refusal.status == 503) headers.emplace_back("Retry-After", "1");
  if (refusal.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  if (!refusal.allow.empty()) headers.emplace_back("Allow", refusal.allow);
  std::string body =
      api::error_body(api::Dialect::kChat, refusal.status, refusal.message, refusal.param);
  co_await writer.respond(refusal.status, std::move(headers), std::move(body));
}

boost::asio::awaitable<void> refuse(Core& core, net::ResponseWriter& writer, Refusal refusal) {
  core.counters.refuse(refusal.status);
  return respond_error(core.options, writer, std::move(refusal));
}

}  // namespace nibble::serve
