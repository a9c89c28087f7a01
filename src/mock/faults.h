// The faults of a script as they look on the wire (docs/mock.md).
//
//   if (strikes_at_once(fault)) co_await strike_at_once(shared, writer, fault, truth);
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>

#include "api/backend.h"
#include "mock/script.h"
#include "mock/shared.h"
#include "net/http_server.h"

namespace nibble::mock {

// Whether it strikes when the request arrives, before the queue and the head.
bool strikes_at_once(const Fault& fault);
// Answers it. `truth` is the value of X-Nibble-Truth.
boost::asio::awaitable<void> strike_at_once(Shared& shared, net::ResponseWriter& writer,
                                            Fault fault, std::string truth);

// The event of kErrorEvent or kBadJson, in the plain form.
std::string fault_event(const Fault& fault, api::Dialect dialect);
// The same for an answer in one body.
std::string fault_body(const Fault& fault, api::Dialect dialect);

// The faults that end a connection, wherever its answer stands.
boost::asio::awaitable<void> break_connection(net::ResponseWriter& writer, Fault fault);

}  // namespace nibble::mock
