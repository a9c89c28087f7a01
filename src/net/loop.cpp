#include "net/loop.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <future>
#include <pthread.h>
#include <sys/resource.h>
#include <vector>

#include "base/check.h"
#include "net/loop_state.h"

namespace nibble::net {
namespace {

constexpr Nanoseconds kProbePeriod = 10'000'000;
constexpr Nanoseconds kMostCounted = 10'000'000'000;  // of one stall, in probes missed
constexpr std::size_t kStreamsOfOneLoop = 256;
constexpr std::size_t kMostLoops = 4;

Nanoseconds cpu_of(clockid_t clock) {
  timespec time = {};
  NIBBLE_CHECK(::clock_gettime(clock, &time) == 0);
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Says how a task ended by being destroyed: with its coroutine, or with the loop.
struct Ending {
  std::promise<bool> promise;
  bool reached = false;
  ~Ending() { promise.set_value(reached); }
};

asio::awaitable<void> hold(Loops::Task task, std::shared_ptr<Ending> ending) {
  co_await task();
  if (ending != nullptr) ending->reached = true;
}

void launch(Loops::Loop& loop, Loops::Task task, std::shared_ptr<Ending> ending) {
  asio::co_spawn(loop.context, hold(std::move(task), std::move(ending)),
                 [](const std::exception_ptr& thrown) { NIBBLE_CHECK(thrown == nullptr); });
}

}  // namespace

Loops::Loop::Loop() : work(asio::make_work_guard(context)), timer(context) {}

void Loops::Loop::start() {
  wall_start = monotonic_now();
  expected = wall_start + kProbePeriod;
  probe();
  thread = std::thread([this] { run(); });
}

// The thread does not end before its last reading is written: whoever has the mutex and sees none
// may read its clock.
void Loops::Loop::run() {
  context.run();
  const std::lock_guard lock(mutex);
  cpu_at_end = cpu_of(CLOCK_THREAD_CPUTIME_ID);
}

void Loops::Loop::probe() {
  timer.expires_at(time_point_of(expected));
  timer.async_wait([this](const boost::system::error_code& code) {
    if (!code) tick();
  });
}

// A stall hides the probes that it swallowed: each of them is counted with what was left of it.
void Loops::Loop::tick() {
  const Nanoseconds late = monotonic_now() - expected;
  {
    const std::lock_guard lock(mutex);
    lag.record(late);
    const Nanoseconds counted = std::min(late, kMostCounted);
    for (Nanoseconds left = counted - kProbePeriod; left > 0; left -= kProbePeriod)
      lag.record(left);
  }
  expected += (std::max<Nanoseconds>(late, 0) / kProbePeriod + 1) * kProbePeriod;
  probe();
}

Nanoseconds Loops::Loop::thread_cpu() const {
  if (cpu_at_end) return *cpu_at_end;
  clockid_t clock = {};
  const pthread_t handle = const_cast<std::thread&>(thread).native_handle();
  NIBBLE_CHECK(::pthread_getcpuclockid(handle, &clock) == 0);
  return cpu_of(clock);
}

LoopAudit Loops::Loop::audit() const {
  const std::lock_guard lock(mutex);
  return {.ticks = lag.count(),
          .lag_p50 = lag.quantile(0.5),
          .lag_p99 = lag.quantile(0.99),
          .lag_max = lag.max(),
          .wall = monotonic_now() - wall_start,
          .cpu = thread_cpu() - cpu_start};
}

void Loops::Loop::reset_audit() {
  const std::lock_guard lock(mutex);
  lag.clear();
  wall_start = monotonic_now();
  cpu_start = thread_cpu();
}

std::size_t loops_for(std::size_t streams) {
  if (streams <= kStreamsOfOneLoop) return 1;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(cores, kMostLoops);
}

Result<> allow_descriptors(std::size_t count) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return run_error("cannot read the limit of open files");
  if (limit.rlim_cur >= count) return {};
  if (limit.rlim_max < count) {
    return run_error(
        "{} open files are needed and {} are allowed; raise the hard limit (ulimit -Hn) or ask for "
        "fewer connections",
        count, limit.rlim_max);
  }
  limit.rlim_cur = count;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return run_error("cannot raise the limit of open files to {}", count);
  }
  return {};
}

struct Loops::Impl {
  std::vector<std::shared_ptr<Loop>> loops;
};

Loops::Loops(std::size_t count) : impl_(std::make_unique<Impl>()) {
  NIBBLE_CHECK(count > 0);
  for (std::size_t i = 0; i < count; ++i) {
    impl_->loops.push_back(std::make_shared<Loop>());
    impl_->loops.back()->start();
  }
}

Loops::~Loops() {
  stop();
}

std::size_t Loops::size() const {
  return impl_->loops.size();
}

const std::shared_ptr<Loops::Loop>& Loops::share(std::size_t loop) const {
  NIBBLE_CHECK(loop < impl_->loops.size());
  return impl_->loops[loop];
}

boost::asio::any_io_executor Loops::executor(std::size_t loop) const {
  return share(loop)->context.get_executor();
}

void Loops::spawn(std::size_t loop, Task task) {
  if (share(loop)->stopped) return;
  launch(*share(loop), std::move(task), nullptr);
}

bool Loops::run(std::size_t loop, Task task) {
  if (share(loop)->stopped) return false;
  auto ending = std::make_shared<Ending>();
  std::future<bool> ended = ending->promise.get_future();
  launch(*share(loop), std::move(task), std::move(ending));
  return ended.get();
}

void Loops::stop() {
  for (const auto& loop : impl_->loops) loop->context.stop();
  for (const auto& loop : impl_->loops) {
    if (!loop->thread.joinable()) continue;
    loop->stopped = true;
    loop->thread.join();
  }
  // Coroutines of one loop may refer to another's sockets: all threads have ended before any goes.
  for (const auto& loop : impl_->loops) loop->context.destroy_waiting();
}

LoopAudit Loops::audit(std::size_t loop) const {
  return share(loop)->audit();
}

void Loops::reset_audit() {
  for (const auto& loop : impl_->loops) loop->reset_audit();
}

asio::awaitable<void> sleep_until(Nanoseconds time) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, time_point_of(time));
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> sleep_for(Nanoseconds span) {
  return sleep_until(monotonic_now() + span);
}

struct Event::Impl {
  struct Waiter {
    asio::steady_timer timer;
    bool notified = false;
  };
  asio::any_io_executor executor;
  std::vector<Waiter*> waiters;

  static asio::awaitable<bool> wait(std::shared_ptr<Impl> self,
                                    asio::steady_timer::time_point end) {
    Waiter waiter{asio::steady_timer(self->executor, end)};
    // Also when the coroutine is destroyed where it waits.
    struct Entry {
      std::vector<Waiter*>& waiters;
      Waiter* waiter;
      ~Entry() { std::erase(waiters, waiter); }
    };
    self->waiters.push_back(&waiter);
    const Entry entry{self->waiters, &waiter};
    boost::system::error_code ignored;
    co_await waiter.timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_return waiter.notified;
  }

  static asio::awaitable<void> wait_ever(std::shared_ptr<Impl> self) {
    co_await wait(std::move(self), asio::steady_timer::time_point::max());
  }
};

Event::Event(asio::any_io_executor executor) : impl_(std::make_shared<Impl>()) {
  impl_->executor = std::move(executor);
}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

asio::awaitable<void> Event::wait() {
  return Impl::wait_ever(impl_);
}

asio::awaitable<bool> Event::wait_until(Nanoseconds time) {
  return Impl::wait(impl_, time_point_of(time));
}

void Event::notify_all() {
  for (Impl::Waiter* waiter : impl_->waiters) {
    waiter->notified = true;
    waiter->timer.cancel();
  }
}

}  // namespace nibble::net
