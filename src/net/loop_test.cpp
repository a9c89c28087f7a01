#include "net/loop.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <thread>

#include "base/eventually.h"

namespace nibble::net {
namespace {

using boost::asio::awaitable;
constexpr Nanoseconds kMs = 1'000'000;

TEST(Loops, RunsAndWaits) {
  Loops loops(2);
  std::thread::id threads[2];
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(loops.run(i, [&, i]() -> awaitable<void> {
      threads[i] = std::this_thread::get_id();
      co_return;
    }));
  }
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(Loops, Sleeps) {
  Loops loops;
  Nanoseconds least = kMs;
  loops.run(0, [&]() -> awaitable<void> {
    for (int i = 0; i < 20; ++i) {
      const Nanoseconds time = monotonic_now() + 2 * kMs;
      co_await sleep_until(time);
      least = std::min(least, monotonic_now() - time);
    }
  });
  EXPECT_GE(least, 0);  // never early; how late is measured by bench/net_stream (lag)
}

TEST(Loops, StopDestroysWhoWaits) {
  Loops loops;
  auto kept = std::make_shared<int>(1);
  std::weak_ptr<int> seen = kept;
  loops.spawn(0,
              [kept = std::move(kept)]() -> awaitable<void> { co_await sleep_for(60'000 * kMs); });
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    loops.stop();
  });
  const bool ended = loops.run(0, []() -> awaitable<void> { co_await sleep_for(60'000 * kMs); });
  stopper.join();
  EXPECT_FALSE(ended);
  EXPECT_TRUE(seen.expired());
  EXPECT_FALSE(loops.run(0, []() -> awaitable<void> { co_return; }));
  loops.stop();
}

// A loop that is blocked for 100 ms is seen to be late by about that, not only in one of its
// probes.
TEST(Loops, AuditSeesAStall) {
  Loops loops;
  LoopAudit audit;
  // All of it on the loop, whose probes come with it: a thread beside it may be held up.
  loops.run(0, [&]() -> awaitable<void> {
    loops.reset_audit();
    const Nanoseconds end = monotonic_now() + 100 * kMs;
    while (monotonic_now() < end || loops.audit(0).cpu < 10 * kMs) {
    }
    co_await sleep_for(25 * kMs);
    audit = loops.audit(0);
  });
  EXPECT_GE(audit.lag_max, 80 * kMs);
  EXPECT_GE(audit.lag_p99, 70 * kMs);
  EXPECT_GE(audit.lag_p50, 5 * kMs);
  EXPECT_GE(audit.ticks, 9U);
  EXPECT_GE(audit.cpu, 10 * kMs);
  EXPECT_GE(audit.wall, 120 * kMs);
  EXPECT_TRUE(eventually([&] {  // not the first time when the machine stalls just now
    loops.reset_audit();
    const LoopAudit fresh = loops.audit(0);
    return fresh.lag_max < 80 * kMs && fresh.cpu < 10 * kMs;
  }));
}

// The threads have ended: what they used is still known, of each of them.
TEST(Loops, AuditAfterStop) {
  Loops loops(3);
  loops.reset_audit();
  for (std::size_t i = 0; i < 3; ++i) {
    loops.run(i, []() -> awaitable<void> {
      timespec used = {};
      while (used.tv_nsec < 20 * kMs) ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      co_return;
    });
  }
  loops.stop();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GE(loops.audit(i).cpu, 10 * kMs) << i;
}

TEST(Loops, Event) {
  Loops loops;
  Event event(loops.executor(0));
  int woken = 0;
  for (int i = 0; i < 3; ++i) {
    loops.spawn(0, [&]() -> awaitable<void> {
      co_await event.wait();
      ++woken;
    });
  }
  loops.run(0, [&]() -> awaitable<void> {
    const bool notified = co_await event.wait_until(monotonic_now() + 5 * kMs);
    EXPECT_FALSE(notified);
    EXPECT_EQ(woken, 0);
    event.notify_all();
    co_await sleep_for(5 * kMs);
    EXPECT_EQ(woken, 3);
  });
}

TEST(Loops, HowMany) {
  EXPECT_EQ(loops_for(1), 1U);
  EXPECT_EQ(loops_for(256), 1U);
  const std::size_t cores = std::thread::hardware_concurrency();
  EXPECT_EQ(loops_for(257), std::clamp<std::size_t>(cores, 1, 4));
  EXPECT_EQ(loops_for(1'000'000), std::clamp<std::size_t>(cores, 1, 4));
}

TEST(Loops, Descriptors) {
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit narrow = {.rlim_cur = 99, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &narrow), 0);
  EXPECT_TRUE(allow_descriptors(100).ok());
  rlimit raised = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, 100U);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Result<> refused = allow_descriptors(static_cast<std::size_t>(1) << 60);
  const bool possible = limit.rlim_max >= (static_cast<rlim_t>(1) << 60);
  EXPECT_EQ(refused.ok(), possible);
}

}  // namespace
}  // namespace nibble::net
