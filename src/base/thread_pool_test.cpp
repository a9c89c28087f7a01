#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <numeric>

namespace nibble {
namespace {

TEST(ThreadPool, EveryThreadWorksOnceARun) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int round = 0; round < 200; ++round) {
      pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    }
    for (const int count : calls) EXPECT_EQ(count, 200);
  }
}

TEST(ThreadPool, RunReturnsAfterTheSlowestThread) {
  ThreadPool pool(3);
  std::atomic<int> done = 0;
  pool.run([&](int thread) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * thread));
    ++done;
  });
  EXPECT_EQ(done, 3);
}

TEST(ThreadPool, WakesWorkersThatFellAsleep) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // beyond the spinning
  pool.run([&](int) { ++done; });
  EXPECT_EQ(done, 2);
}

TEST(ThreadPool, TheCallerMayRunEverywhereAgain) {
  const std::vector<int> before = usable_processors();
  {
    ThreadPool pool(static_cast<int>(before.size()));
    pool.run([](int) {});
    EXPECT_EQ(usable_processors().size(), 1U);
  }
  EXPECT_EQ(usable_processors(), before);
}

TEST(WorkQueue, HandsOutEachUnitOnce) {
  constexpr std::int64_t kUnits = 10'000;
  std::vector<std::atomic<int>> taken(kUnits);
  ThreadPool pool(4);
  WorkQueue queue(kUnits);
  pool.run([&](int) {
    while (const auto unit = queue.next()) ++taken[static_cast<std::size_t>(*unit)];
  });
  for (const std::atomic<int>& count : taken) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace nibble
