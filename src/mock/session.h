// One answer as it happens: waits in the queue, waits for each token's due time, writes it, and
// does the fault that the script has for it.
//
//   co_await answer_request(shared, writer, std::move(request), received_at, index);
#pragma once

#include <boost/asio/awaitable.hpp>

#include "mock/request.h"
#include "mock/shared.h"
#include "net/http_server.h"

namespace nibble::mock {

// The coroutine ends when the answer has ended, the client has gone or the server stops.
boost::asio::awaitable<void> answer_request(Shared& shared, net::ResponseWriter& writer,
                                            ClientRequest request, Nanoseconds arrival,
                                            std::uint64_t index);

}  // namespace nibble::mock
