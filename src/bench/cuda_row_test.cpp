#include "bench/cuda_row.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

const CudaRoofsNow kRoofs{.read_gb_s = 1000, .matrix_tflops = 100};

CudaRun run_of(double us, double bytes, double flop) {
  CudaRun run{.us = us, .work = {.weight_bytes = bytes, .flop = flop, .distinct = 4, .slots = 8}};
  run.floor = floor_of(run.work, kRoofs);
  return run;
}

// 1 MB at 1,000 GB/s is 1 us, 1e8 FLOP at 100 TFLOP/s too.
TEST(CudaRow, FloorsAndRatiosByHand) {
  CudaRow row{.on = "cuda:0", .part = "layer", .routing = "random"};
  row.predicted_us = 3;
  row.launch_floor_us = 2;
  row.launches = 5;
  std::vector<CudaRun> runs;
  std::vector<double> times;
  for (int at = 0; at < 11; ++at) {
    runs.push_back(run_of(4, 2e6, 1e8));
    times.push_back(4);
  }
  set_runs(row, runs, summarize(times, 0.95), kRoofs);
  EXPECT_EQ(row.row.floor_us, 2);
  EXPECT_EQ(row.row.share.median, 0.5);
  EXPECT_EQ(row.row.memory_us, 2);
  EXPECT_EQ(row.row.compute_us, 1);
  EXPECT_TRUE(row.row.memory_bound());
  EXPECT_EQ(row.row.rows_per_expert, 2);
  const Json json = to_json(row);
  EXPECT_EQ(*json.find("predicted_us"), Json(3.0));
  EXPECT_EQ(*json.find("predicted_ratio"), Json(0.75));
  EXPECT_EQ(*json.find("time_over_floors"), Json(1.0));  // 4 / (2 + 2)
  EXPECT_EQ(*json.find("routing"), Json("random"));
  EXPECT_EQ(*json.find("on"), Json("cuda:0"));
  EXPECT_EQ(*json.find("launches"), Json(5));
}

TEST(CudaRow, WhatIsNotKnownIsNull) {
  CudaRow row{.on = "cuda:0"};
  row.row.error = "out of memory";
  const Json json = to_json(row);
  for (const char* key : {"time_us", "floor_us", "predicted_us", "launch_floor_us", "roof_share",
                          "time_over_floors", "routing", "launches"}) {
    ASSERT_NE(json.find(key), nullptr) << key;
    EXPECT_TRUE(json.find(key)->is_null()) << key;
  }
  EXPECT_EQ(*json.find("error"), Json("out of memory"));
}

// A launch of 3 us and gaps of 0.5 us: five kernels are 3 + 4 x 0.5.
TEST(CudaRow, LaunchFloorOfAGraph) {
  GpuRoofs roofs;
  EXPECT_FALSE(launch_floor_us(roofs, 5).has_value());
  roofs.roofs["graph_launch_us"] = {.value = 3};
  roofs.roofs["graph_gap_us"] = {.value = 0.5};
  EXPECT_EQ(launch_floor_us(roofs, 5), 5);
  EXPECT_EQ(launch_floor_us(roofs, 1), 3);
  EXPECT_FALSE(launch_floor_us(roofs, 0).has_value());
  roofs.roofs["graph_gap_programmatic_us"] = {.value = 0.25};
  EXPECT_EQ(launch_floor_us(roofs, 5), 4);
}

}  // namespace
}  // namespace nibble
