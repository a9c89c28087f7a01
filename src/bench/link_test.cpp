#include "bench/link.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "bench/link_rig.h"

namespace nibble {
namespace {

// A curve of exactly `latency_us` + bytes / bandwidth, as a copy or an all-reduce over two takes.
LinkCurve curve(LinkOp op, LinkRoute route, double latency_us, double bandwidth_gb_s) {
  LinkCurve made{.op = op, .route = route, .devices = {0, 1}};
  for (double bytes = 2048; bytes <= 1 << 26; bytes *= 2) {
    const double us = latency_us + bytes / (bandwidth_gb_s * 1e3);
    made.rows.push_back({.bytes = bytes, .time_us = {.values = {us}, .median = us}});
  }
  return made;
}

LinkReport report_of(const char* gpu) {
  LinkReport report;
  report.gpus = {{0, gpu, "0000:01:00.0"}, {1, gpu, "0000:02:00.0"}};
  report.nvlink = true;
  report.nccl_version = "2.28.9";
  report.curves.push_back(curve(LinkOp::kCopy, LinkRoute::kStaged, 20, 20));
  report.curves.push_back(curve(LinkOp::kCopy, LinkRoute::kDirect, 2, 400));
  report.curves.push_back(curve(LinkOp::kAllReduce, LinkRoute::kNccl, 9, 320));
  return report;
}

TEST(Link, TheAllReduceBecomesTheMachinesLink) {
  LinkReport report = report_of("NVIDIA H200");
  conclude_link(report, "nibble bench link --on cuda:0,1");
  ASSERT_TRUE(report.machine_link.has_value());
  EXPECT_EQ(report.machine_link->name, "nvlink4");  // as the catalog calls it
  EXPECT_NEAR(report.machine_link->latency_us.value, 9, 1e-6);
  EXPECT_NEAR(report.machine_link->bandwidth_gb_s.value, 320, 1e-6);
  EXPECT_EQ(report.machine_link->bandwidth_gb_s.provenance, Provenance::kMeasured);
  EXPECT_EQ(report.machine_link->bandwidth_gb_s.source,
            "nibble bench link --on cuda:0,1: NCCL 2.28.9 all-reduce, 2 GPUs from 2 KB to 64 MB on "
            "2 x NVIDIA H200, fitted to the ledger's formula");
}

TEST(Link, TheMachineIsTheCatalogsWithThatLinkFirst) {
  LinkReport report = report_of("NVIDIA H200");
  report.nvlink = false;
  conclude_link(report, "nibble bench link");
  ASSERT_TRUE(report.machine.has_value());
  ASSERT_EQ(report.machine->links.size(), 2U);
  EXPECT_EQ(report.machine->links.front().name, "pcie5-x16");  // what was measured between them
  EXPECT_NEAR(report.machine->links.front().bandwidth_gb_s.value, 320, 1e-6);
  EXPECT_EQ(report.machine->links.back().name, "nvlink4");
  // It reads back as a machine file.
  const auto read = parse_machine(to_json(*report.machine), "mine.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_NEAR(read->links.front().latency_us.value, 9, 1e-6);
  EXPECT_EQ(read->links.front().latency_us.provenance, Provenance::kMeasured);
}

TEST(Link, WithoutNcclTheDirectCopyIsTheLink) {
  LinkReport report = report_of("A GPU of nobody");
  report.curves.pop_back();
  report.nccl_version.clear();
  conclude_link(report, "nibble bench link");
  ASSERT_TRUE(report.machine_link.has_value());
  EXPECT_EQ(report.machine_link->name, "nvlink");
  EXPECT_NEAR(report.machine_link->bandwidth_gb_s.value, 400, 1e-6);
  EXPECT_EQ(report.machine_link->latency_us.source,
            "nibble bench link: copy 0 -> 1, direct from 2 KB to 64 MB on 2 x A GPU of nobody, "
            "fitted to the ledger's formula");
  EXPECT_FALSE(report.machine.has_value());
}

TEST(Link, ACopyThroughTheHostIsNoLink) {
  LinkReport report = report_of("NVIDIA H200");
  report.curves.resize(1);
  conclude_link(report, "nibble bench link");
  EXPECT_FALSE(report.machine_link.has_value());
}

TEST(Link, RowsThatFailedCountAsFailures) {
  LinkReport report = report_of("NVIDIA H200");
  EXPECT_FALSE(report.failed());
  LinkRow& row = report.curves.back().rows.back();
  row = {.bytes = row.bytes, .error = "element 0 arrived as another"};
  EXPECT_TRUE(report.failed());
  conclude_link(report, "nibble bench link");
  EXPECT_TRUE(report.curves.back().fit.has_value());  // of the other rows
  LinkCurve& last = report.curves.back();
  last.rows.erase(last.rows.begin(), last.rows.end() - 1);
  conclude_link(report, "nibble bench link");
  EXPECT_NE(last.no_fit, "");
}

TEST(Link, RatesAreWhatMustLeaveAGpu) {
  // 1 MB in 10 us among four: an all-reduce sends 2 * 3/4 of it, the others 3/4, a copy all.
  const LinkRow row{.bytes = 1e6, .time_us = {.values = {10}, .median = 10}};
  const auto rate = [&](LinkOp op) { return link_gb_s({.op = op, .devices = {0, 1, 2, 3}}, row); };
  EXPECT_DOUBLE_EQ(rate(LinkOp::kAllReduce), 150);
  EXPECT_DOUBLE_EQ(rate(LinkOp::kAllGather), 75);
  EXPECT_DOUBLE_EQ(rate(LinkOp::kAllToAll), 75);
  EXPECT_DOUBLE_EQ(rate(LinkOp::kCopy), 100);
}

TEST(Link, JsonHoldsTheLinksOfAMachineFile) {
  LinkReport report = report_of("NVIDIA H200");
  conclude_link(report, "nibble bench link");
  const Json json = to_json(report);
  const Json* link = json.find("link");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->find("curves")->as_array().size(), 3U);
  const Json& listed = link->find("links")->as_array().at(0);
  EXPECT_EQ(listed.find("name")->as_string(), "nvlink4");
  EXPECT_EQ(listed.find("bandwidth_gb_s")->find("is")->as_string(), "measured");
  EXPECT_EQ(link->find("curves")->as_array().at(2).find("fit")->find("algorithm")->as_string(),
            "fastest");
}

TEST(LinkRig, ContentByHand) {
  // Rank 0 sends 1 2 3 4 5 6 7 1 ..., rank 1 begins at 4: 4 5 6 7 1 2 ...
  EXPECT_EQ(link_sent(0, 0), 1);
  EXPECT_EQ(link_sent(0, 7), 1);
  EXPECT_EQ(link_sent(1, 0), 4);
  EXPECT_EQ(link_sent(1, 4), 1);
  EXPECT_EQ(link_expected(LinkOp::kCopy, 2, 1, 0, 8), 4);
  EXPECT_EQ(link_expected(LinkOp::kAllReduce, 2, 0, 4, 8), 5 + 1);
  // Two ranks with parts of four: all-gather gives 1 2 3 4 | 4 5 6 7 to both; all-to-all gives
  // rank 1 the second parts: 5 6 7 1 | 1 2 3 4.
  EXPECT_EQ(link_expected(LinkOp::kAllGather, 2, 0, 5, 4), 5);
  EXPECT_EQ(link_expected(LinkOp::kAllToAll, 2, 1, 0, 4), 5);
  EXPECT_EQ(link_expected(LinkOp::kAllToAll, 2, 1, 3, 4), 1);
  EXPECT_EQ(link_expected(LinkOp::kAllToAll, 2, 1, 7, 4), 4);
  EXPECT_EQ(bf16_of(1), 0x3F80);
  EXPECT_EQ(bf16_of(3), 0x4040);
  EXPECT_EQ(bf16_of(112), 0x42E0);  // 1.75 x 2^6
}

TEST(LinkTimer, Repetitions) {
  EXPECT_EQ(link_repetitions(0), 64);
  EXPECT_EQ(link_repetitions(5), 64);   // 80 would do, 64 are enough
  EXPECT_EQ(link_repetitions(10), 40);  // 400 us in all
  EXPECT_EQ(link_repetitions(150), 3);
  EXPECT_EQ(link_repetitions(1e6), 2);
}

}  // namespace
}  // namespace nibble
