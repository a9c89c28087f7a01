#include "mock/step_runner.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace nibble::mock {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
// Of the driver among the waiters of its pump; requests count from 1.
constexpr std::uint64_t kDriverKey = std::numeric_limits<std::uint64_t>::max();

}  // namespace

StepRunner::StepRunner(const MockScript& script, Counters& counters, Nanoseconds started_at)
    : counters_(counters),
      started_at_(started_at),
      engine_(script, started_at),
      telemetry_(script.gpu, static_cast<std::size_t>(script.steps->ranks)),
      next_sample_(started_at + kSamplePeriod) {}

boost::asio::awaitable<void> StepRunner::drive(Pump& pump, boost::asio::any_io_executor executor) {
  {
    const std::lock_guard lock(mutex_);
    driver_pump_ = &pump;
    driver_executor_ = std::move(executor);
  }
  while (true) {
    const Nanoseconds next = move(pump, monotonic_now() + Pump::kTogether);
    const bool going = co_await pump.until_woken(next, kDriverKey);
    if (!going) co_return;
  }
}

// Everything that is due by `now`, in the order of its time; gives when the next is due.
Nanoseconds StepRunner::move(Pump& pump, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  while (true) {
    const Nanoseconds event = engine_.next_event();
    const Nanoseconds next = std::min(event, next_sample_);
    if (next > now) return next;
    if (next_sample_ <= event) {
      telemetry_.sample(engine_.gpus(), next_sample_);
      next_sample_ += kSamplePeriod;
    } else if (const std::optional<Step> step = engine_.advance()) {
      account(*step);
      deliver(pump, *step);
    }
  }
}

void StepRunner::account(const Step& step) {
  ++steps_;
  counters_.step(step.decode_rows, step.prompt_tokens);
  counters_.prompt(step.fresh_tokens + step.cached_tokens, step.cached_tokens);
  busy_.push_back({step.start, step.end});
  while (busy_.front().end <= step.end - kSecond) busy_.pop_front();
}

void StepRunner::deliver(Pump& pump, const Step& step) {
  struct Woken {
    boost::asio::any_io_executor executor;
    std::vector<std::uint64_t> keys;
  };
  std::map<Pump*, Woken> woken;
  for (const StepToken& token : step.tokens) {
    const auto found = tickets_.find(token.id);
    if (found == tickets_.end()) continue;
    StepTicket& ticket = *found->second;
    ticket.start_ = token.start;
    ticket.due_.push_back(step.end);
    Woken& those = woken[ticket.pump_];
    those.executor = ticket.executor_;
    those.keys.push_back(token.id);
  }
  for (auto& [at, those] : woken) {
    std::sort(those.keys.begin(), those.keys.end());
    if (at == &pump) {
      pump.wake_all(those.keys);
    } else {
      boost::asio::post(those.executor,
                        [at = at, keys = std::move(those.keys)] { at->wake_all(keys); });
    }
  }
}

std::shared_ptr<StepTicket> StepRunner::arrive(StepRequest request, Nanoseconds at, Pump& pump,
                                               boost::asio::any_io_executor executor) {
  auto ticket = std::make_shared<StepTicket>();
  ticket->pump_ = &pump;
  ticket->executor_ = std::move(executor);
  const std::lock_guard lock(mutex_);
  ticket->id_ = request.id = next_id_++;
  request.at = at;
  if (!engine_.fits(request)) return nullptr;
  const Nanoseconds before = engine_.next_event();
  engine_.arrive(request);
  tickets_.emplace(ticket->id_, ticket);
  if (engine_.next_event() < before && driver_pump_ != nullptr) {
    boost::asio::post(driver_executor_, [driver = driver_pump_] { driver->wake(kDriverKey); });
  }
  return ticket;
}

std::optional<DueToken> StepRunner::take(StepTicket& ticket) {
  const std::lock_guard lock(mutex_);
  if (ticket.due_.empty()) return std::nullopt;
  const DueToken token{.due = ticket.due_.front(), .start = ticket.start_};
  ticket.due_.pop_front();
  return token;
}

void StepRunner::leave(const StepTicket& ticket) {
  const std::lock_guard lock(mutex_);
  engine_.leave(ticket.id());
  tickets_.erase(ticket.id());
}

StepCounts StepRunner::counts() const {
  const std::lock_guard lock(mutex_);
  return engine_.counts();
}

std::uint64_t StepRunner::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

std::int64_t StepRunner::in_service() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(tickets_.size()) - engine_.counts().waiting;
}

double StepRunner::busy_share(Nanoseconds now) const {
  const std::lock_guard lock(mutex_);
  const Nanoseconds from = std::max(started_at_, now - kSecond);
  Nanoseconds busy = 0;
  const auto add = [&](Nanoseconds start, Nanoseconds end) {
    busy += std::max<Nanoseconds>(0, std::min(end, now) - std::max(start, from));
  };
  for (const Span& span : busy_) add(span.start, span.end);
  if (const std::optional<Nanoseconds> start = engine_.step_start()) add(*start, now);
  return now > from ? static_cast<double>(busy) / static_cast<double>(now - from) : 0;
}

}  // namespace nibble::mock
