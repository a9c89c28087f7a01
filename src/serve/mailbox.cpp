#include "serve/mailbox.h"

#include <boost/asio/post.hpp>
#include <iterator>
#include <utility>

namespace nibble::serve {

Mailbox::Mailbox(boost::asio::any_io_executor executor)
    : place_(Place{executor, net::Event(executor)}) {}

void Mailbox::put(std::size_t choice, engine::Update update) {
  const std::lock_guard lock(mutex_);
  if (!place_) return;
  arrivals_.push_back({choice, std::move(update)});
  if (std::exchange(posted_, true)) return;
  // Under the mutex: the loop is there until close() has it.
  boost::asio::post(place_->executor, [self = shared_from_this()] { self->wake(); });
}

void Mailbox::wake() {
  if (!place_) return;  // only the loop ever lets go of it
  woken_ = true;
  place_->arrived.notify_all();
}

boost::asio::awaitable<void> Mailbox::wait_until(Nanoseconds time) {
  if (std::exchange(woken_, false)) co_return;
  co_await place_->arrived.wait_until(time);
  woken_ = false;
}

std::vector<Arrival> Mailbox::take(std::size_t most) {
  const std::lock_guard lock(mutex_);
  posted_ = false;
  if (arrivals_.size() <= most) return std::exchange(arrivals_, {});
  woken_ = true;
  const auto rest = arrivals_.begin() + static_cast<std::ptrdiff_t>(most);
  std::vector<Arrival> oldest(std::make_move_iterator(arrivals_.begin()),
                              std::make_move_iterator(rest));
  arrivals_.erase(arrivals_.begin(), rest);
  return oldest;
}

void Mailbox::close() {
  std::optional<Place> place;  // ends when the lock is gone
  std::vector<Arrival> arrivals;
  const std::lock_guard lock(mutex_);
  place_.swap(place);
  arrivals_.swap(arrivals);
}

}  // namespace nibble::serve
