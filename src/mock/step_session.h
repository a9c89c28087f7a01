// One answer of an engine of steps as it happens: waits for each token that the engine gives it.
//
//   co_await answer_in_steps(shared, writer, std::move(request), received_at, index);
#pragma once

#include <boost/asio/awaitable.hpp>

#include "mock/request.h"
#include "mock/shared.h"
#include "net/http_server.h"

namespace nibble::mock {

// As answer_request() of session.h; the script has steps.
boost::asio::awaitable<void> answer_in_steps(Shared& shared, net::ResponseWriter& writer,
                                             ClientRequest request, Nanoseconds arrival,
                                             std::uint64_t index);

}  // namespace nibble::mock
