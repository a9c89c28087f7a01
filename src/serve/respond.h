// Answers that are one body: pages and refusals.
//
//   net::Headers headers = headers_for(options, "application/json");
//   co_await refuse(options, writer, Refusal{400, "...", "top_p"});
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "net/http_server.h"
#include "serve/options.h"
#include "serve/parameters.h"

namespace nibble::serve {

// Of every answer: what it is, and which pages in a browser may read it.
net::Headers headers_for(const ServeOptions& options, std::string type);

// {"error": {"message", "type", "param", "code"}} with the refusal's status; 503 with Retry-After,
// 401 with WWW-Authenticate.
boost::asio::awaitable<void> refuse(const ServeOptions& options, net::ResponseWriter& writer,
                                    Refusal refusal);

}  // namespace nibble::serve
