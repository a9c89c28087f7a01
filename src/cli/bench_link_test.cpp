#include "cli/bench_link.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

LinkCurve curve_of_test(LinkOp op, LinkRoute route, std::vector<int> devices) {
  LinkCurve curve{.op = op, .route = route, .devices = std::move(devices)};
  // 10 us and 100 GB/s of a copy: 20.49 us for 1 MB, 681.1 us for 64 MB.
  for (const double bytes : {1048576.0, 67108864.0}) {
    const double us = 10 + bytes / 100e3;
    curve.rows.push_back({.bytes = bytes, .time_us = {.values = {us}, .median = us}});
  }
  return curve;
}

LinkReport link_report_of_test() {
  LinkReport report;
  report.gpus = {{0, "NVIDIA H200", "0000:01:00.0"}, {1, "NVIDIA H200", "0000:02:00.0"}};
  report.nvlink = true;
  report.nccl_version = "2.28.9";
  report.curves = {curve_of_test(LinkOp::kCopy, LinkRoute::kDirect, {0, 1}),
                   curve_of_test(LinkOp::kAllReduce, LinkRoute::kNccl, {0, 1})};
  report.notes = {"NVLink multicast is off"};
  return report;
}

TEST(LinkText, TablesAndTheLinkOfAMachineFile) {
  LinkReport report = link_report_of_test();
  conclude_link(report, "nibble bench link");
  const std::string text = link_text(report, Style::plain());
  for (const char* part :
       {"How fast 2 x NVIDIA H200 exchange messages over NVLink.", "Copies with peer access",
        "copy 0 -> 1, direct", "64 MB", "681.1 us", "98.5 GB/s",  // 67.1 MB in 681.1 us
        "all-reduce, 2 GPUs", "10.00 us", "100 GB/s", "1.00 x", "\"links\": [{\"name\":\"nvlink4\"",
        "\"is\":\"measured\"", "NVLink multicast is off"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("through the host"), std::string::npos) << text;
}

TEST(LinkText, WhatFailedIsSaid) {
  LinkReport report = link_report_of_test();
  report.curves[1].rows[1] = {.bytes = 67108864, .error = "element 3 arrived as another"};
  conclude_link(report, "nibble bench link");
  const std::string text = link_text(report, Style::plain());
  EXPECT_NE(text.find("ERROR all-reduce, 2 GPUs, 64 MB: element 3 arrived as another"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("failed"), std::string::npos);
  // One size is left, of which no bandwidth can be told: the copy is the link then.
  EXPECT_NE(text.find("all-reduce, 2 GPUs: latency and bandwidth need messages of two sizes"),
            std::string::npos);
  EXPECT_NE(text.find("copy 0 -> 1, direct from 1 MB to 64 MB"), std::string::npos);
}

TEST(LinkText, MoreCurvesThanColumnsAreCounted) {
  LinkReport report = link_report_of_test();
  for (int other = 2; other < 6; ++other) {
    report.curves.push_back(curve_of_test(LinkOp::kCopy, LinkRoute::kDirect, {0, other}));
  }
  conclude_link(report, "nibble bench link");
  const std::string text = link_text(report, Style::plain());
  EXPECT_NE(text.find("2 more curves are in --json"), std::string::npos) << text;
  EXPECT_NE(text.find("copy 0 -> 5, direct"), std::string::npos);  // among the fits
}

}  // namespace
}  // namespace nibble::cli
