#include "machine/cpu_roofs.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace nibble {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(ReadBuffer, ExceedsTheCachesAndTheLeastSize) {
  EXPECT_EQ(read_buffer_bytes(0, 64e9), 256e6);
  EXPECT_EQ(read_buffer_bytes(32e6, 64e9), 256e6);     // 2.5 x 32 MB is less
  EXPECT_EQ(read_buffer_bytes(384e6, 64e9), 960e6);    // 2.5 x 384 MB
  EXPECT_EQ(read_buffer_bytes(384e6, 1000e6), 500e6);  // half of what is there
}

// A smaller buffer than a real measurement's: this checks the bookkeeping, not the machine. No CPU
// of the last decades reads slower than 0.1 GB/s or multiplies slower than 0.1 GFLOP/s; none has
// more than 10 TB/s or 100 TFLOP/s on two threads.
TEST(CpuRoofs, OneNumberAPassAndTheirMedian) {
  const auto roofs = measure_cpu_roofs({.threads = 2, .buffer_bytes = 8e6, .passes = 3});
  ASSERT_TRUE(roofs.ok()) << roofs.error().message;
  ASSERT_EQ(roofs->read.passes.size(), 3U);
  EXPECT_EQ(roofs->read.value, median_of(roofs->read.passes));
  EXPECT_GT(roofs->read.value, 0.1);
  EXPECT_LT(roofs->read.value, 1e4);
  EXPECT_TRUE(find_read_probe(roofs->read.path)) << roofs->read.path;
  ASSERT_EQ(roofs->rates.size(), 3U);
  for (const auto& [precision, rate] : roofs->rates) {
    ASSERT_EQ(rate.passes.size(), 3U);
    EXPECT_EQ(rate.value, median_of(rate.passes));
    EXPECT_GT(rate.value, 1e-4) << to_string(precision);
    EXPECT_LT(rate.value, 100) << to_string(precision);
    EXPECT_FALSE(rate.path.empty());
  }
  // A narrower operand may always be widened.
  EXPECT_GE(roofs->rates.at(Precision::kInt8).value, roofs->rates.at(Precision::kBf16).value);
  EXPECT_GE(roofs->rates.at(Precision::kBf16).value, roofs->rates.at(Precision::kFp32).value);
}

TEST(CpuRoofs, WorksWithOneThreadAndABufferSmallerThanAStep) {
  const auto roofs = measure_cpu_roofs({.threads = 1, .buffer_bytes = 1, .passes = 1});
  ASSERT_TRUE(roofs.ok()) << roofs.error().message;
  EXPECT_GT(roofs->read.value, 0);
  EXPECT_GT(roofs->rates.at(Precision::kInt8).value, 0);
}

TEST(CpuRoofs, MoreMemoryThanThereIsIsAnErrorNotACrash) {
  const auto roofs = measure_cpu_roofs({.threads = 1, .buffer_bytes = 1e18, .passes = 1});
  ASSERT_FALSE(roofs.ok());
  EXPECT_EQ(roofs.error().kind, ErrorKind::kRun);
}

TEST(ThreadScaling, HasEveryNumberOfThreads) {
  const auto scaling = measure_thread_scaling(2, 1e6, 1);
  ASSERT_TRUE(scaling.ok());
  ASSERT_EQ(scaling->size(), 2U);
  EXPECT_EQ(scaling->front().threads, 1);
  EXPECT_EQ(scaling->back().threads, 2);
}

// Every probe reads every word once: words are 1, 2, 3, ... so that a word that is read twice in
// place of another shows.
TEST(ReadProbes, EachSumsAllWords) {
  ThreadPool pool(2);
  std::vector<std::uint64_t> words(3 * (1 << 17) + kReadStepBytes / 8);  // three units and a step
  std::uint64_t expected = 0;
  for (std::size_t index = 0; index < words.size(); ++index) expected += words[index] = index + 1;
  const std::vector<ReadProbe> probes = read_probes();
  EXPECT_GE(probes.size(), 12U);  // 4 counts of streams x 3 distances x each width
  for (const ReadProbe& probe : probes) {
    std::uint64_t sum = 0;
    EXPECT_GT(read_seconds(probe, {std::as_bytes(std::span(words))}, pool, &sum), 0);
    EXPECT_EQ(sum, expected) << to_string(probe);
  }
}

TEST(ReadProbes, WhatIsNoWholeStepIsNotRead) {
  const std::vector<std::byte> bytes(2 * kReadStepBytes + 100);
  EXPECT_EQ(bytes_read({std::span(bytes)}), 2.0 * kReadStepBytes);
}

// Twice the work takes about twice the time: a loop that the compiler has emptied would not.
TEST(MultiplyProbes, TimeGrowsWithTheWork) {
  ThreadPool pool(1);
  for (const MultiplyProbe& probe : multiply_probes()) {
    const auto best = [&](std::int64_t units) {
      double seconds = multiply_seconds(probe, units, pool);
      for (int pass = 0; pass < 5; ++pass) {
        seconds = std::min(seconds, multiply_seconds(probe, units, pool));
      }
      return seconds;
    };
    const double ratio = best(40) / best(10);
    EXPECT_GT(ratio, 2) << probe.path;
    EXPECT_EQ(operations_of(probe, 40), 4 * operations_of(probe, 10));
    EXPECT_TRUE(find_multiply_probe(probe.path).has_value());
  }
  const MultiplyProbe whole = multiply_probes().back();
  const auto halves = find_multiply_probe(std::string("two halves of ") + whole.path);
  ASSERT_TRUE(halves.has_value());
  EXPECT_EQ(halves->operations, whole.operations / 2);
  EXPECT_FALSE(find_multiply_probe("abacus").has_value());
}

}  // namespace
}  // namespace nibble
