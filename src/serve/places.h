// The places that the engine has for choices, running and queued: a request gets one for each of
// its choices, or none at all.
//
//   Places places(engine.options().max_running_requests + engine.options().max_queued_requests);
//   std::vector<HeldPlace> mine = places.take(asked.choices());
//   if (mine.empty()) ...                       // places.taken() of places.most() are taken
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace nibble::serve {

// Free again when the last copy of it is gone, on any thread.
using HeldPlace = std::shared_ptr<void>;

// Any thread.
class Places {
 public:
  explicit Places(std::int64_t most)
      : most_(most), taken_(std::make_shared<std::atomic<std::int64_t>>(0)) {}

  std::vector<HeldPlace> take(std::int64_t count) {
    std::vector<HeldPlace> places;
    std::int64_t before = taken_->load();
    do {
      if (count > most_ - before) return places;
    } while (!taken_->compare_exchange_weak(before, before + count));
    places.reserve(static_cast<std::size_t>(count));
    for (std::int64_t at = 0; at < count; ++at) {
      places.push_back(std::make_shared<Held>(taken_));
    }
    return places;
  }

  std::int64_t most() const { return most_; }
  std::int64_t taken() const { return taken_->load(); }

 private:
  struct Held {
    explicit Held(std::shared_ptr<std::atomic<std::int64_t>> count) : taken(std::move(count)) {}
    ~Held() { taken->fetch_sub(1); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::shared_ptr<std::atomic<std::int64_t>> taken;
  };

  const std::int64_t most_;
  const std::shared_ptr<std::atomic<std::int64_t>> taken_;  // the engine may outlive us
};

}  // namespace nibble::serve
