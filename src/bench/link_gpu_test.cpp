// On GPUs: what arrives, and times that are possible. Skipped with a reason where there are fewer
// than two.
#include <gtest/gtest.h>

#include "bench/link.h"
#include "bench/link_rig.h"

namespace nibble {
namespace {

constexpr std::size_t kMost = 1 << 20;

class CudaLink : public testing::Test {
 protected:
  void SetUp() override {
    const Result<int> present = cuda::device_count();
    if (!present) GTEST_SKIP() << present.error().message;
    if (*present < 2) GTEST_SKIP() << "a link is between two GPUs, and here is " << *present;
  }
};

LinkMessage copy_message(std::size_t bytes, bool both_ways, bool peer_access) {
  return {.op = LinkOp::kCopy, .bytes = bytes, .both_ways = both_ways, .peer_access = peer_access};
}

TEST_F(CudaLink, CopiesArrive) {
  Result<LinkRig> rig = LinkRig::make({0, 1}, kMost);
  ASSERT_TRUE(rig.ok()) << rig.error().message;
  for (const bool direct : {false, true}) {
    ASSERT_TRUE(rig->set_access(0, 1, false).ok());
    if (direct) {
      const Result<bool> able = rig->can_access(0, 1);
      ASSERT_TRUE(able.ok()) << able.error().message;
      if (!*able) GTEST_SKIP() << "the driver gives the GPUs no access to each other's memory";
      ASSERT_TRUE(rig->set_access(0, 1, true).ok());
      ASSERT_TRUE(rig->set_access(0, 1, true).ok());  // a second time as well
    }
    for (const std::size_t bytes : {link_step(2), std::size_t{65536}, kMost}) {
      for (const bool both_ways : {false, true}) {
        const Result<> right = rig->check(copy_message(bytes, both_ways, direct));
        EXPECT_TRUE(right.ok()) << right.error().message;
      }
    }
    // No link moves 1 MB in less than a microsecond.
    const auto timing = rig->time(copy_message(kMost, false, direct), {.budget_s = 0.1});
    ASSERT_TRUE(timing.ok()) << timing.error().message;
    EXPECT_GT(timing->time_us.median, 1);
    EXPECT_EQ(timing->graphs, direct) << timing->no_graph;
  }
}

TEST_F(CudaLink, CollectivesArriveAndAreTimedInGraphs) {
  const Result<const Nccl*> nccl = Nccl::load("");
  if (!nccl) GTEST_SKIP() << nccl.error().message;
  Result<LinkRig> rig = LinkRig::make({0, 1}, kMost);
  ASSERT_TRUE(rig.ok()) << rig.error().message;
  const Result<> opened = rig->open_nccl(**nccl);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  for (const LinkOp op : {LinkOp::kAllReduce, LinkOp::kAllGather, LinkOp::kAllToAll}) {
    for (const std::size_t bytes : {link_step(2), std::size_t{2048}, kMost}) {
      const Result<> right = rig->check({.op = op, .bytes = bytes});
      ASSERT_TRUE(right.ok()) << right.error().message;
    }
    const auto timing = rig->time({.op = op, .bytes = kMost}, {.budget_s = 0.1});
    ASSERT_TRUE(timing.ok()) << timing.error().message;
    EXPECT_GT(timing->time_us.median, 1);
    EXPECT_TRUE(timing->graphs) << timing->no_graph;
    // What was replayed has left the right result.
    const Result<> right = rig->check({.op = op, .bytes = kMost});
    EXPECT_TRUE(right.ok()) << right.error().message;
  }
}

TEST_F(CudaLink, TheWholeRunGivesALink) {
  auto report = run_link({.devices = {0, 1}, .sizes = {2048, 65536, 1 << 20}, .row_seconds = 0.05},
                         [](std::string_view, double) {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  conclude_link(*report, "nibble bench link");
  EXPECT_FALSE(report->failed());
  ASSERT_GE(report->curves.size(), 3U);
  EXPECT_EQ(report->curves.front().route, LinkRoute::kStaged);
  for (const LinkCurve& curve : report->curves) {
    EXPECT_EQ(curve.rows.size(), 3U) << curve_title(curve);
    EXPECT_TRUE(curve.fit.has_value()) << curve_title(curve) << ": " << curve.no_fit;
  }
}

}  // namespace
}  // namespace nibble
