// Answers that are one body: pages and refusals.
//
//   net::Headers headers = headers_for(options, "application/json");
//   co_await refuse(core, writer, Refusal{400, "...", "top_p"});
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "net/http_server.h"
#include "serve/core.h"
#include "serve/options.h"
#include "serve/parameters.h"

namespace nibble::serve {

// Of every answer: what it is, and which pages in a browser may read it.
net::Headers headers_for(const ServeOptions& options, std::string type);

// {"error": {"message", "type", "param", "code"}} with the refusal's status; 503 with Retry-After,
// 401 with WWW-Authenticate, 405 with Allow.
boost::asio::awaitable<void> respond_error(const ServeOptions& options, net::ResponseWriter& writer,
                                           Refusal refusal);

// The same for a request that is not served at all: it is counted as refused.
boost::asio::awaitable<void> refuse(Core& core, net::ResponseWriter& writer, Refusal refusal);

}  // namespace nibble::serve
