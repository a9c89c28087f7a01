// One request for answers as it happens: submits its choices to the engine, turns their tokens into
// text, and writes events or one body. Its coroutine owns the engine's tickets: however it ends,
// with the last token, a client that has gone or a server that stops, what has not ended is
// cancelled.
//
//   co_await answer(core, writer, api::Dialect::kChat, std::move(request));
#pragma once

#include <boost/asio/awaitable.hpp>

#include "api/backend.h"
#include "net/http_server.h"
#include "serve/core.h"

namespace nibble::serve {

boost::asio::awaitable<void> answer(Core& core, net::ResponseWriter& writer, api::Dialect dialect,
                                    net::ServerRequest request);

}  // namespace nibble::serve
