// The CPU's tuner on a small shape: real weights, real times.
#include "bench/tune_cpu.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"
#include "base/thread_pool.h"
#include "bench/tune_cpu_check.h"
#include "bench/tune_shapes.h"
#include "measure/sampler.h"
#include "tactics/tune/tuner.h"

namespace nibble {
namespace {

tune::TuningKey small_key() {
  return {{.op = "moe.down", .experts = 4, .top_k = 2, .n = 64, .k = 128}, 3, 2};
}

TEST(CpuTuner, EveryTacticIsRightAndGivesTheSameBits) {
  const auto backend = make_cpu_tuner({.cold = false});
  const Result<tune::Candidates> found = backend->candidates(small_key());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_NE(std::find(found->feasible.begin(), found->feasible.end(), found->fallback),
            found->feasible.end());
  std::vector<std::uint64_t> first;
  for (const tune::AnyTactic& tactic : found->feasible) {
    const Result<tune::CheckRun> run = backend->check(small_key(), tactic, 3, 4);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(tune::what_is_wrong(*run, 4), "") << tune::to_string(tactic);
    EXPECT_GT(run->error, 0);
    // gemm.h: the same bits on all instruction sets, for any number of threads.
    if (first.empty()) first = run->digests;
    EXPECT_EQ(run->digests, first) << tune::to_string(tactic);
    const Result<double> us = backend->time_us(small_key(), tactic, 1);
    EXPECT_TRUE(us.ok() && *us > 0);
  }
}

std::vector<std::size_t> tokens_by_expert(const CheckedPart& part) {
  std::vector<std::size_t> counts;
  for (const auto& tokens : part.routes.tokens_of) counts.push_back(tokens.size());
  return counts;
}

// Experts 0 .. 5 with 4, 1, 3, 0, 2 and 5 tokens of a matrix [128, 10]: 1,280 products a token.
Routes uneven_routes() {
  Routes routes;
  for (const auto& [expert, tokens] : {std::pair(0, 4), {1, 1}, {2, 3}, {4, 2}, {5, 5}}) {
    routes.expert_of.push_back(expert);
    routes.tokens_of.emplace_back();
    for (int at = 0; at < tokens; ++at) routes.tokens_of.back().push_back(10 * expert + at);
  }
  return routes;
}

TEST(CpuCheck, TakesTheBusiestAndTheLeastBusyExpertsWithinItsBound) {
  const tune::TuningShape shape{.op = "moe.down", .experts = 6, .top_k = 2, .n = 128, .k = 10};
  const CheckedPart all = part_to_check(shape, uneven_routes(), 15 * 1280);
  EXPECT_EQ(all.routes.expert_of, uneven_routes().expert_of);
  EXPECT_EQ(all.first_row, 0);
  EXPECT_EQ(all.rows, 128);
  // In turn 5, 1 and 4 tokens: ten. The next, with two, would be too much.
  const CheckedPart some = part_to_check(shape, uneven_routes(), 11 * 1280);
  EXPECT_EQ(some.routes.expert_of, (std::vector<std::int32_t>{0, 1, 5}));
  EXPECT_EQ(tokens_by_expert(some), (std::vector<std::size_t>{4, 1, 5}));
  EXPECT_EQ(some.rows, 128);
}

TEST(CpuCheck, OfOneExpertThatIsTooMuchTheLastRowsAndTokens) {
  const tune::TuningShape shape{.op = "moe.down", .experts = 6, .top_k = 2, .n = 130, .k = 10};
  const CheckedPart rows = part_to_check(shape, uneven_routes(), 5 * 70 * 10);
  EXPECT_EQ(rows.routes.expert_of, (std::vector<std::int32_t>{5}));
  EXPECT_EQ(rows.first_row, 64);  // whole units of 64 rows before it, and the matrix's own end
  EXPECT_EQ(rows.rows, 66);
  EXPECT_EQ(tokens_by_expert(rows), (std::vector<std::size_t>{5}));
  const CheckedPart tokens = part_to_check(shape, uneven_routes(), 2 * 66 * 10);
  EXPECT_EQ(tokens.rows, 66);
  EXPECT_EQ(tokens.routes.tokens_of, (std::vector<std::vector<std::int32_t>>{{53, 54}}));
  EXPECT_EQ(tokens_by_expert(part_to_check(shape, uneven_routes(), 1)),
            (std::vector<std::size_t>{1}));
}

// GLM-5 on one of eight ranks at 64 tokens, where 50 replays of all 256 experts took the two
// minutes that a worker has for an answer.
TEST(CpuCheck, OfALargeLayerIsBounded) {
  const tune::TuningShape shape{
      .op = "moe.gate_up", .experts = 256, .top_k = 8, .n = 512, .k = 6144};
  Random random(3);
  for (const std::int64_t tokens : {1, 64, 4096, 65536}) {
    const Routes routes = draw_routes({shape.experts, shape.top_k, tokens}, random);
    const CheckedPart part = part_to_check(shape, routes);
    const double products = static_cast<double>(part.routes.slots() * part.rows * shape.k);
    EXPECT_LE(products, kMostCheckedProducts) << tokens;
    EXPECT_GE(products, kMostCheckedProducts / 5) << tokens;
    EXPECT_EQ(part.first_row + part.rows, shape.n);
  }
}

TEST(CpuTuner, TriesEveryNumberOfThreadsThatIsAPowerOfTwoAndAll) {
  int of_avx2 = 0;
  for (const tune::CpuTactic& tactic : cpu_tactics(6)) {
    if (tactic.isa != Isa::kAvx2) continue;
    const int wanted[] = {1, 2, 4, 6};
    EXPECT_EQ(tactic.threads, wanted[of_avx2++]);
  }
  EXPECT_EQ(of_avx2, 4);
}

TEST(CpuTuner, RefusesAShapeThatItsKernelsDoNotTake) {
  const auto backend = make_cpu_tuner({});
  tune::TuningKey key = small_key();
  key.shape.k = 127;
  EXPECT_FALSE(backend->candidates(key).ok());
  EXPECT_FALSE(backend->check(small_key(), W4A16Tactic{}, 3, 2).ok());
}

// GLM-5 on one of eight ranks: 256 experts of [2 x 256, 6144] and [6144, 256]
// (facts: moe_intermediate_size 2048, hidden_size 6144).
TEST(TuningKeysOfModel, AreThePerRankShapes) {
  const auto keys = tuning_keys({.model = "glm-5-nvfp4", .tp = 8, .tokens = {1, 64}});
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  ASSERT_EQ(keys->size(), 4U);
  EXPECT_EQ(keys->at(0).shape.op, "moe.gate_up");
  EXPECT_EQ(keys->at(0).shape.n, 512);
  EXPECT_EQ(keys->at(0).shape.k, 6144);
  EXPECT_EQ(keys->at(3).shape.op, "moe.down");
  EXPECT_EQ(keys->at(3).shape.n, 6144);
  EXPECT_EQ(keys->at(3).shape.k, 256);
  EXPECT_EQ(keys->at(3).shape.experts, 256);
  EXPECT_EQ(keys->at(3).shape.top_k, 8);
  EXPECT_EQ(keys->at(3).tokens, 64);
  EXPECT_EQ(keys->at(3).from_tokens, 17);
}

// nvidia/GLM-5-NVFP4 quantises weights and activations (its hf_quant_config.json): the CPU
// multiplies both as they are, as `bench moe` does.
TEST(TuningKeysOfModel, HaveTheCheckpointsActivations) {
  const auto keys = tuning_keys({.model = "glm-5-nvfp4", .tp = 8, .tokens = {1}});
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  for (const tune::TuningKey& key : *keys) {
    EXPECT_EQ(key.shape.format, Format::kNvfp4);
    EXPECT_EQ(key.shape.activations, Format::kNvfp4) << key.shape.op;
  }
  const auto given =
      tuning_keys({.model = "glm-5-nvfp4", .tp = 8, .tokens = {1}, .activations = Format::kFp16});
  ASSERT_TRUE(given.ok()) << given.error().message;
  EXPECT_EQ(given->at(0).shape.activations, Format::kFp16);
}

TEST(TuningKeysOfModel, WhatNothingRunsIsAUsageErrorBeforehand) {
  for (const bool on_gpu : {false, true}) {
    tune::TuningKey key = small_key();
    EXPECT_TRUE(check_tuning_keys({key}, on_gpu).ok());
    key.shape.activations = on_gpu ? Format::kInt8 : Format::kFp16;
    const Result<> format = check_tuning_keys({key}, on_gpu);
    ASSERT_FALSE(format.ok());
    EXPECT_EQ(format.error().kind, ErrorKind::kUsage);
  }
  tune::TuningKey many = small_key();
  many.tokens = 1 << 20;
  const Result<> tokens = check_tuning_keys({many}, false);
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(tokens.error().message, "--tokens is 1048576; give a whole number from 1 to 65536");
  // The outputs alone: 2^20 tokens x 2 x 64 x 4 B.
  const Result<> memory = check_tuning_memory({many}, 536e6);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(check_tuning_memory({small_key()}, 536e6).ok());
}

TEST(TuningKeysOfModel, ADenseModelHasNone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "config.json", R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256})")
                  .ok());
  const auto keys = tuning_keys({.model = folder.path().string(), .tokens = {1}});
  ASSERT_FALSE(keys.ok());
  EXPECT_EQ(keys.error().kind, ErrorKind::kInput);
}

TEST(RecordedRouting, FollowsItsCountsAndRefusesAnotherNumberOfExperts) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "routing.json").string();
  ASSERT_TRUE(
      write_file(path, R"({"schema": "nibble.routing/1", "counts": [0, 100, 100, 0]})").ok());
  const Result<RouteDraw> routing = parse_routing_or_file(path, 4);
  ASSERT_TRUE(routing.ok()) << routing.error().message;
  Random random(3);
  const std::vector<std::int32_t> ids =
      draw_ids({.experts = 4, .top_k = 2, .tokens = 50}, *routing, random);
  ASSERT_EQ(ids.size(), 100U);
  for (const std::int32_t id : ids) EXPECT_TRUE(id == 1 || id == 2);
  const Result<RouteDraw> other = parse_routing_or_file(path, 8);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("counts of 4 experts, and the layer has 8"),
            std::string::npos);
  EXPECT_TRUE(parse_routing_or_file("zipf:1", 8).ok());
  const Result<RouteDraw> nowhere = parse_routing_or_file("nosuch.json", 8);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().message,
            "--routing is \"nosuch.json\"; there is no such file of recorded counts "
            "(nibble.routing/1), and it is none of balanced, random, and zipf:S with a number S "
            "from 0 to 8");
}

}  // namespace
}  // namespace nibble
