#include "load/metrics_intervals.h"

#include <algorithm>

namespace nibble::load {
namespace {

constexpr Nanoseconds kTenth = 100'000'000;
constexpr std::int64_t kTenthsInSecond = 10;

}  // namespace

void IntervalSweep::add(Nanoseconds start, Nanoseconds stop) {
  starts_.push_back(start);
  stops_.push_back(std::max(start, stop));
  sorted_ = false;
}

void IntervalSweep::sort() const {
  if (sorted_) return;
  std::sort(starts_.begin(), starts_.end());
  std::sort(stops_.begin(), stops_.end());
  sorted_ = true;
}

Window IntervalSweep::span() const {
  sort();
  if (empty()) return {};
  return {starts_.front(), stops_.back()};
}

template <class Each>
void IntervalSweep::walk(Each&& each) const {
  sort();
  std::size_t start = 0;
  std::size_t stop = 0;
  Nanoseconds from = empty() ? 0 : starts_.front();
  std::int64_t flying = 0;
  while (stop < stops_.size()) {
    const bool ends = start == starts_.size() || stops_[stop] <= starts_[start];
    // A request of no length ends where it starts, and must start first.
    const bool starts_first = ends && flying == 0;
    const Nanoseconds at = ends && !starts_first ? stops_[stop] : starts_[start];
    if (at > from) each(from, at, flying);
    from = std::max(from, at);
    if (ends && !starts_first) {
      --flying;
      ++stop;
    } else {
      ++flying;
      ++start;
    }
  }
}

InFlight IntervalSweep::count(const Window& window, std::int64_t level) const {
  InFlight result;
  const double length = window.length_s();
  if (!(length > 0)) return result;
  walk([&](Nanoseconds from, Nanoseconds to, std::int64_t flying) {
    const Nanoseconds low = std::max(from, window.start);
    const Nanoseconds high = std::min(to, window.stop);
    if (high <= low) return;
    const double span = seconds(high - low);
    result.mean += span * static_cast<double>(flying) / length;
    result.peak = std::max(result.peak, flying);
    if (flying >= level) result.share_at_least += span / length;
  });
  result.share_at_least = std::min(1.0, result.share_at_least);
  return result;
}

std::optional<Window> IntervalSweep::reaches(std::int64_t level) const {
  std::optional<Window> window;
  walk([&](Nanoseconds from, Nanoseconds to, std::int64_t flying) {
    if (flying < level) return;
    if (!window) window = Window{from, to};
    window->stop = to;
  });
  return window;
}

void TokenRate::add(Nanoseconds at, double tokens) {
  const std::int64_t tenth = at / kTenth;
  // Events of a request follow each other: the last tenth is most often the right one.
  if (last_ == nullptr || last_tenth_ != tenth) {
    last_ = &tenths_.try_emplace(tenth, 0).first->second;
    last_tenth_ = tenth;
  }
  *last_ += tokens;
}

double TokenRate::best_second() const {
  double best = 0;
  double held = 0;
  auto oldest = tenths_.begin();
  for (const auto& [tenth, tokens] : tenths_) {
    held += tokens;
    while (oldest->first <= tenth - kTenthsInSecond) {
      held -= oldest->second;
      ++oldest;
    }
    best = std::max(best, held);
  }
  return best;
}

}  // namespace nibble::load
