#include "capi/cpu_team.h"

#include <atomic>
#include <gtest/gtest.h>
#include <new>
#include <sched.h>
#include <stdexcept>
#include <vector>

namespace nibble::capi {
namespace {

TEST(CpuTeam, WorkOfManyThreadsIsDoneOneAfterTheOther) {
  CpuTeam team(2);
  int inside = 0;  // unguarded on purpose: jobs never overlap
  int done = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < 50; ++job) {
        const Result<> ended = team.run([&](ThreadPool& pool) {
          EXPECT_EQ(++inside, 1);
          EXPECT_EQ(pool.threads(), 2);
          std::atomic<int> ran = 0;
          pool.run([&](int) { ++ran; });
          EXPECT_EQ(ran, 2);
          ++done;
          --inside;
        });
        EXPECT_TRUE(ended.ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 200);
}

TEST(CpuTeam, WhatAJobThrowsIsThrownByRun) {
  CpuTeam team(1);
  EXPECT_THROW(static_cast<void>(team.run([](ThreadPool&) { throw std::runtime_error("job"); })),
               std::runtime_error);
  EXPECT_THROW(static_cast<void>(team.run([](ThreadPool&) { throw std::bad_alloc(); })),
               std::bad_alloc);
  EXPECT_THROW(static_cast<void>(team.run([](ThreadPool&) { throw 1; })), int);
  bool ran = false;
  EXPECT_TRUE(team.run([&](ThreadPool&) { ran = true; }).ok());
  EXPECT_TRUE(ran);
}

TEST(CpuTeam, TheCallersThreadIsNotBound) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  {
    CpuTeam team(2);
    EXPECT_TRUE(team.run([](ThreadPool&) {}).ok());
    ASSERT_EQ(::sched_getaffinity(0, sizeof(after), &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
  EXPECT_GE(CpuTeam(0).threads(), 1);
}

}  // namespace
}  // namespace nibble::capi
