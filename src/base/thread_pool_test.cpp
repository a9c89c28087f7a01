#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/resource.h>
#include <system_error>

#include "base/eventually.h"

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

// A worker that is held up keeps nobody waiting for work that is done; one that has begun does.
TEST(ThreadPool, SharedWorkEndsWithoutWorkersThatHaveNotBegun) {
  ThreadPool pool(2);
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> units = 0;
  for (int round = 0; round < 20'000; ++round) {
    WorkQueue queue(3);
    pool.share([&](int) {
      ++begun;
      while (queue.next()) ++units;
      ++ended;
    });
    ASSERT_EQ(begun, ended);
    ASSERT_EQ(units, 3 * (round + 1));
  }
  EXPECT_GE(begun, 20'000);
  EXPECT_LE(begun, 40'000);
  std::atomic<int> done = 0;
  pool.run([&](int) { ++done; });  // and the next section is whole
  EXPECT_EQ(done, 2);
}

TEST(ThreadPool, SectionsOfBothKindsInTurn) {
  ThreadPool pool(5);
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> done = 0;
    pool.share([&](int) { ++done; });
    ASSERT_GE(done, 1);
    std::vector<int> calls(5, 0);
    pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    ASSERT_EQ(calls, std::vector<int>(5, 1));
  }
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

// Of three threads the first two; of one the caller. A worker that has not begun when the caller is
// done stays away, so that one round need not see all of them.
TEST(ThreadPool, NoMoreThreadsThanAskedForTakePart) {
  constexpr double kLong = 1e9;
  ThreadPool pool(3);
  for (const int most : {0, 1, 2, 3, 9}) {
    const int last = most == 0 || most > 3 ? 2 : most - 1;
    std::atomic<int> highest = -1;
    const auto round = [&] {
      pool.run_for(
          kLong,
          [&](int thread) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            int seen = highest;
            while (thread > seen && !highest.compare_exchange_weak(seen, thread)) {
            }
          },
          most);
    };
    for (int at = 0; at < 200; ++at) round();
    ASSERT_LE(highest, last) << most;
    EXPECT_TRUE(eventually([&] {
      round();
      return highest >= last;
    })) << most;
    EXPECT_EQ(highest, last) << most;
  }
}

// In a process of its own, whose memory has no room for the stacks of so many.
TEST(ThreadPool, ThreadsThatDoNotStartAreAnException) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer needs more memory than the limit leaves";
#endif
  const auto begin = [] {
    constexpr rlim_t kRoom = rlim_t{1} << 30;
    const rlimit limit{.rlim_cur = kRoom, .rlim_max = kRoom};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      const ThreadPool pool(1000);
    } catch (const std::system_error&) {
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(begin(), testing::ExitedWithCode(7), "");
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

TEST(ShareQueue, HandsOutEachUnitOnce) {
  for (const std::int64_t count : {0, 1, 3, 10'000}) {
    std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
    ThreadPool pool(4);
    ShareQueue queue(count, pool.threads());
    pool.run([&](int thread) {
      while (const auto unit = queue.next(thread)) ++taken[static_cast<std::size_t>(*unit)];
    });
    for (const std::atomic<int>& times : taken) EXPECT_EQ(times, 1);
  }
}

TEST(ShareQueue, AThreadTakesItsOwnShareInOrderAndThenWhatOthersLeft) {
  ShareQueue queue(7, 2);  // shares of 3 and 4
  std::vector<std::int64_t> taken;
  taken.push_back(queue.next(0).value_or(-1));
  while (const auto unit = queue.next(1)) taken.push_back(*unit);
  EXPECT_EQ(taken, (std::vector<std::int64_t>{0, 3, 4, 5, 6, 1, 2}));
  EXPECT_FALSE(queue.next(0));
}

TEST(ShareQueue, MoreThreadsThanShares) {
  ShareQueue queue(100, 1000);
  std::vector<std::int64_t> taken;
  while (const auto unit = queue.next(999)) taken.push_back(*unit);
  std::sort(taken.begin(), taken.end());
  ASSERT_EQ(taken.size(), 100U);
  EXPECT_EQ(taken.front(), 0);
  EXPECT_EQ(taken.back(), 99);
}

TEST(ThreadPool, SmallWorkIsDoneByTheCallerAlone) {
  ThreadPool pool(4);
  std::vector<int> threads;
  pool.run_for(100, [&](int thread) { threads.push_back(thread); });
  EXPECT_EQ(threads, std::vector<int>{0});
}

}  // namespace
}  // namespace nibble
