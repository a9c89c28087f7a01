// Brings the updates of a request's choices from the engine's thread to the loop of its connection.
// The engine never waits: what a slow client has not taken stays here, at most its max_tokens.
//
//   const auto mailbox = std::make_shared<Mailbox>(executor);
//   engine.submit(request, [mailbox](engine::Update update) { mailbox->put(0, update); });
//   co_await mailbox->wait_until(deadline);
//   for (const Arrival& arrival : mailbox->take()) ...
//   mailbox->close();                               // by whoever made it, on the loop
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "net/loop.h"

namespace nibble::serve {

struct Arrival {
  std::size_t choice = 0;
  engine::Update update;
};

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  explicit Mailbox(boost::asio::any_io_executor executor);

  // Any thread; after close() it does nothing.
  void put(std::size_t choice, engine::Update update);

  // The rest on the loop alone.
  // Returns when something has arrived, wake() was called or the time has come.
  boost::asio::awaitable<void> wait_until(Nanoseconds time);
  void wake();
  // The oldest, at most so many; where some are left the next wait is over at once.
  std::vector<Arrival> take(std::size_t most = SIZE_MAX);
  // Lets go of the loop, which may end before the engine does.
  void close();

 private:
  // What belongs to the loop.
  struct Place {
    boost::asio::any_io_executor executor;
    net::Event arrived;
  };

  std::mutex mutex_;
  std::optional<Place> place_;
  std::vector<Arrival> arrivals_;
  bool posted_ = false;
  bool woken_ = false;
};

}  // namespace nibble::serve
