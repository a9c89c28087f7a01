// A tuning file's choices as the rigs on a GPU get them: a table of entries written by hand, and
// the tactic that a layer's products then run with.
#include "bench/cuda_tactics.h"

#include <gtest/gtest.h>

#include "bench/tune_shapes.h"

namespace nibble {
namespace {

// Limits of an H200 (CUDA guide, table 30), whose kernels for Blackwell's FP4 fit as well.
cuda::DeviceInfo tuned_gpu() {
  return {.name = "NVIDIA H200",
          .major = 9,
          .minor = 0,
          .sms = 132,
          .shared_per_block_optin = 227 * 1024,
          .shared_per_sm = 228 * 1024,
          .registers_per_sm = 65536};
}

tune::TuningSite tuned_site() {
  return {.device = "NVIDIA H200", .units = 132, .driver = "CUDA 13.0", .kernel_version = "abc"};
}

BenchShape tuned_layer(Format activations) {
  return {.op = BenchOp::kMoe,
          .name = "moe",
          .activations = activations,
          .experts = 16,
          .top_k = 4,
          .n = 256,
          .k = 512,
          .tokens = {4, 64}};
}

// The keys as docs/tuning.md has them: gate and up lie in one matrix of 2 x 256 rows.
tune::TuningShape hand_gate_up(Format activations) {
  return {.op = "moe.gate_up",
          .experts = 16,
          .top_k = 4,
          .n = 512,
          .k = 512,
          .activations = activations};
}
tune::TuningShape hand_down(Format activations) {
  return {
      .op = "moe.down", .experts = 16, .top_k = 4, .n = 512, .k = 256, .activations = activations};
}

tune::TuningEntry chosen_for(const tune::TuningShape& shape, const tune::AnyTactic& choice) {
  return {.key = {shape, 64, 17}, .choice = choice, .fallback = choice};
}

tune::TuningFile hand_file(const tune::AnyTactic& gate_up, const tune::AnyTactic& down,
                           Format activations) {
  tune::TuningFile file{.site = tuned_site()};
  file.put(chosen_for(hand_gate_up(activations), gate_up));
  file.put(chosen_for(hand_down(activations), down));
  return file;
}

// Neither is the other, nor the fallback.
const W4A4Tactic kW4A4GateUp{
    .way = Way::kWeightsOnM, .m = 128, .n = 16, .k = 256, .stages = 2, .warps_m = 4, .warps_n = 1};
const W4A4Tactic kW4A4Down{
    .way = Way::kWeightsOnM, .m = 64, .n = 8, .k = 128, .stages = 3, .warps_m = 4, .warps_n = 1};
const W4A4Tactic kW4A4Fallback{};
const W4A16Tactic kW4A16GateUp{.rows = 128, .stages = 3};
const W4A16Tactic kW4A16Fallback{};

W4A4Problem w4a4_problem(std::int64_t n, std::int64_t k) {
  return {.experts = 16, .n = n, .k = k, .format = Format::kNvfp4};
}

TEST(CudaTactics, AW4A4LayerTakesTheFilesChoices) {
  Result<tune::TuningTable> table =
      tuning_of_layers(hand_file(kW4A4GateUp, kW4A4Down, Format::kNvfp4), "t.json", tuned_site(),
                       {tuned_layer(Format::kNvfp4)});
  ASSERT_TRUE(table.ok()) << table.error().message;
  // Asked for before anything runs: two products at 4 tokens, which the file lacks, and at 64.
  EXPECT_EQ(table->asked(), 4U);
  EXPECT_EQ(table->hits(), 2U);
  const BenchShape layer = tuned_layer(Format::kNvfp4);
  const auto tactic_for = [&](const tune::TuningShape& shape, std::int64_t tokens) {
    return tuned_or_default(&*table, shape, tokens, w4a4_problem(shape.n, shape.k), tuned_gpu(),
                            kW4A4Fallback);
  };
  EXPECT_EQ(tactic_for(gate_up_of_layer(layer), 64), kW4A4GateUp);
  EXPECT_EQ(tactic_for(down_of_layer(layer), 64), kW4A4Down);
  EXPECT_EQ(tactic_for(gate_up_of_layer(layer), 4), kW4A4Fallback);
  EXPECT_EQ(table->asked(), 4U);
  EXPECT_EQ(table->report()[0], "tuning file t.json: 2 of 4 keys hit");
}

TEST(CudaTactics, AW4A16LayerTakesTheFilesChoices) {
  const tune::TuningShape shape = hand_gate_up(Format::kBf16);
  Result<tune::TuningTable> table =
      tuning_of_layers(hand_file(kW4A16GateUp, kW4A16Fallback, Format::kBf16), "t.json",
                       tuned_site(), {tuned_layer(Format::kBf16)});
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->hits(), 2U);
  const W4A16Problem problem{.experts = 16, .n = 512, .k = 512, .mode = W4A16Mode::kPlain};
  EXPECT_EQ(tuned_or_default(&*table, shape, 64, problem, tuned_gpu(), kW4A16Fallback),
            kW4A16GateUp);
  EXPECT_EQ(tuned_or_default(nullptr, shape, 64, problem, tuned_gpu(), kW4A16Fallback),
            kW4A16Fallback);
}

// Activations are a part of the key: a file for W4A16 has nothing for W4A4.
TEST(CudaTactics, AFileForOtherActivationsHasNoChoice) {
  Result<tune::TuningTable> table =
      tuning_of_layers(hand_file(kW4A16GateUp, kW4A16Fallback, Format::kBf16), "t.json",
                       tuned_site(), {tuned_layer(Format::kNvfp4)});
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->asked(), 4U);
  EXPECT_EQ(table->hits(), 0U);
}

TEST(CudaTactics, WhatCannotRunIsAMissWithItsReason) {
  W4A4Tactic deep = kW4A4GateUp;
  deep.stages = 64;  // 128 x 256 / 2 bytes of weights a stage: 1 MB
  Result<tune::TuningTable> table =
      tuning_of_layers(hand_file(deep, kW4A16GateUp, Format::kNvfp4), "t.json", tuned_site(),
                       {tuned_layer(Format::kNvfp4)});
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->hits(), 2U);
  EXPECT_EQ(tuned_or_default(&*table, hand_gate_up(Format::kNvfp4), 64, w4a4_problem(512, 512),
                             tuned_gpu(), kW4A4Fallback),
            kW4A4Fallback);
  EXPECT_EQ(table->hits(), 1U);
  EXPECT_EQ(tuned_or_default(&*table, hand_down(Format::kNvfp4), 64, w4a4_problem(512, 256),
                             tuned_gpu(), kW4A4Fallback),
            kW4A4Fallback);
  EXPECT_EQ(table->hits(), 0U);
  std::string said;
  for (const std::string& line : table->report()) said += line + "\n";
  EXPECT_NE(said.find("the file's choice is no W4A4 tactic, default taken"), std::string::npos)
      << said;
}

TEST(CudaTactics, AnotherDevicesFileIsRefusedAndAStaleOneIsNot) {
  const auto table_at = [](const tune::TuningSite& here) {
    return tuning_of_layers(hand_file(kW4A4GateUp, kW4A4Down, Format::kNvfp4), "t.json", here,
                            {tuned_layer(Format::kNvfp4)});
  };
  tune::TuningSite other = tuned_site();
  other.device = "NVIDIA RTX PRO 6000";
  other.units = 188;
  const Result<tune::TuningTable> foreign = table_at(other);
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().kind, ErrorKind::kInput);
  EXPECT_EQ(foreign.error().message,
            "tuning file t.json is not used: it was made on NVIDIA H200 with 132 units, and this "
            "is NVIDIA RTX PRO 6000 with 188; nibble tune writes one for this device");
  other = tuned_site();
  other.driver = "CUDA 13.1";
  const Result<tune::TuningTable> stale = table_at(other);
  ASSERT_TRUE(stale.ok()) << stale.error().message;
  EXPECT_EQ(stale->hits(), 0U);
  EXPECT_NE(stale->problem().find("CUDA 13.1"), std::string::npos);
}

}  // namespace
}  // namespace nibble
