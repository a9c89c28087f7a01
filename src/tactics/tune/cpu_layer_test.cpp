// A tuning file's choices on their way to a layer on the CPU.
#include "tactics/tune/cpu_layer.h"

#include <gtest/gtest.h>

#include "tactics/tune/cpu_site.h"
#include "tactics/tune/test_backend.h"

namespace nibble::tune {
namespace {

// Of GLM-5 on one of eight ranks: gate and up [512, 6144], down [6144, 256].
CpuLayer test_layer() {
  return {.experts = 256,
          .top_k = 8,
          .hidden = 6144,
          .intermediate = 256,
          .tokens = {1, 64},
          .isa = Isa::kPortable,
          .threads = 4};
}

CpuTactic portable(int threads) {
  return {.isa = Isa::kPortable, .threads = threads};
}

TuningEntry entry_of(const TuningShape& shape, std::int64_t from, std::int64_t tokens,
                     const AnyTactic& choice) {
  return {.key = {shape, tokens, from}, .choice = choice, .fallback = portable(4)};
}

TuningTable table_of(std::vector<TuningEntry> entries) {
  TuningFile file{.site = test_site()};
  for (TuningEntry& entry : entries) file.put(std::move(entry));
  return TuningTable(std::move(file), "cpu.json", test_site());
}

TEST(CpuLayer, ItsProductsAreTheKeysOfAModel) {
  EXPECT_EQ(to_string(gate_up_shape(test_layer())),
            "moe.gate_up 256 x [512, 6144] top 8 nvfp4 x bf16");
  EXPECT_EQ(to_string(down_shape(test_layer())), "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16");
  CpuLayer layer = test_layer();
  layer.activations = Format::kFp32;
  EXPECT_EQ(down_shape(layer).activations, Format::kBf16);
  layer.activations = Format::kInt8;
  EXPECT_EQ(down_shape(layer).activations, Format::kInt8);
}

TEST(CpuLayer, EachProductGetsItsOwnThreadsByTokens) {
  const CpuLayer layer = test_layer();
  TuningTable table = table_of({entry_of(gate_up_shape(layer), 1, 1, portable(2)),
                                entry_of(gate_up_shape(layer), 17, 64, portable(4)),
                                entry_of(down_shape(layer), 1, 1, portable(1))});
  const CpuLayerChoices choices = choose_cpu_layer(table, layer);
  EXPECT_EQ(threads_for(choices.threads.gate_up, 1), 2);
  EXPECT_EQ(threads_for(choices.threads.gate_up, 16), 0);  // no range holds it: all
  EXPECT_EQ(threads_for(choices.threads.gate_up, 17), 4);
  EXPECT_EQ(threads_for(choices.threads.gate_up, 65), 0);
  EXPECT_EQ(threads_for(choices.threads.down, 1), 1);
  EXPECT_EQ(threads_for(choices.threads.down, 64), 0);
  EXPECT_EQ(table.report(),
            (std::vector<std::string>{
                "tuning file cpu.json: 3 of 4 keys hit",
                "moe.gate_up 256 x [512, 6144] top 8 nvfp4 x bf16, 1 token: cpu portable 2 threads",
                "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 1 token: cpu portable 1 thread",
                "moe.gate_up 256 x [512, 6144] top 8 nvfp4 x bf16, 64 tokens: cpu portable 4 "
                "threads",
                "moe.down 256 x [6144, 256] top 8 nvfp4 x bf16, 64 tokens: the file ends at 1 "
                "token, default taken"}));
}

// Of two ranges that hold a number, the table and the layer take the same one.
TEST(CpuLayer, TheRangeThatEndsFirstIsTaken) {
  CpuLayer layer = test_layer();
  layer.tokens = {20, 64};
  std::vector<TuningEntry> entries = {entry_of(down_shape(layer), 17, 64, portable(4)),
                                      entry_of(down_shape(layer), 13, 48, portable(2))};
  for (int order = 0; order < 2; ++order) {
    TuningTable table = table_of(entries);
    const CpuLayerChoices choices = choose_cpu_layer(table, layer);
    for (const std::int64_t tokens : {13, 20, 48, 49, 64}) {
      const int wanted = tokens <= 48 ? 2 : 4;
      EXPECT_EQ(threads_for(choices.threads.down, tokens), wanted) << tokens;
      EXPECT_EQ(table.find(down_shape(layer), tokens).tactic, AnyTactic(portable(wanted)));
    }
    std::swap(entries[0], entries[1]);
  }
}

TEST(CpuLayer, WhatCannotBeHadIsRefusedAloud) {
  CpuLayer layer = test_layer();
  layer.threads = 2;
  const CpuTactic other{.isa = Isa::kAvx2, .threads = 1};
  TuningTable table = table_of({entry_of(gate_up_shape(layer), 1, 1, portable(4)),
                                entry_of(gate_up_shape(layer), 17, 64, W4A16Tactic{}),
                                entry_of(down_shape(layer), 1, 1, other),
                                entry_of(down_shape(layer), 17, 64, portable(1))});
  const CpuLayerChoices choices = choose_cpu_layer(table, layer);
  EXPECT_EQ(choices.isa, Isa::kPortable);
  EXPECT_EQ(threads_for(choices.threads.gate_up, 1), 0);
  EXPECT_EQ(threads_for(choices.threads.gate_up, 64), 0);
  EXPECT_EQ(threads_for(choices.threads.down, 1), 0);
  EXPECT_EQ(threads_for(choices.threads.down, 64), 1);
  const std::vector<std::string> report = table.report();
  ASSERT_EQ(report.size(), 5U);
  EXPECT_EQ(report[0], "tuning file cpu.json: 1 of 4 keys hit");
  EXPECT_NE(report[1].find("the file's choice is cpu portable 4 threads, and there are 2, default "
                           "taken"),
            std::string::npos)
      << report[1];
  EXPECT_NE(report[2].find("the file's choice is cpu avx2 1 thread, and the layer's weights are "
                           "packed for portable alone, default taken"),
            std::string::npos)
      << report[2];
  EXPECT_NE(report[3].find("no tactic of a CPU, default taken"), std::string::npos) << report[3];
}

TEST(CpuLayer, TheInstructionSetIsThatOfAllChoicesUnlessOneWasNamed) {
  CpuLayer layer = test_layer();
  layer.isa = std::nullopt;
  const std::vector<TuningEntry> agreed = {entry_of(gate_up_shape(layer), 1, 64, portable(1)),
                                           entry_of(down_shape(layer), 1, 64, portable(2))};
  TuningTable table = table_of(agreed);
  EXPECT_EQ(choose_cpu_layer(table, layer).isa, Isa::kPortable);
  EXPECT_EQ(table.hits(), 4U);
  if (best_isa() == Isa::kPortable) return;
  std::vector<TuningEntry> differing = agreed;
  differing[1].choice = CpuTactic{.isa = best_isa(), .threads = 2};
  TuningTable two = table_of(differing);
  EXPECT_EQ(choose_cpu_layer(two, layer).isa, best_isa());
  EXPECT_EQ(two.hits(), 2U);
  layer.isa = best_isa();
  TuningTable named = table_of(agreed);
  EXPECT_EQ(choose_cpu_layer(named, layer).isa, best_isa());
  EXPECT_EQ(named.hits(), 0U);
}

TEST(CpuLayer, AStaleFileGivesTheDefaults) {
  TuningSite here = test_site();
  here.kernel_version = "another";
  CpuLayer layer = test_layer();
  layer.isa = std::nullopt;
  TuningFile file{.site = test_site()};
  file.put(entry_of(down_shape(layer), 1, 64, portable(1)));
  TuningTable table(std::move(file), "cpu.json", here);
  const CpuLayerChoices choices = choose_cpu_layer(table, layer);
  EXPECT_EQ(choices.isa, best_isa());
  EXPECT_TRUE(choices.threads.gate_up.empty() && choices.threads.down.empty());
  EXPECT_EQ(table.report(),
            (std::vector<std::string>{"tuning file cpu.json is not used: it was made with kernels "
                                      "abc, and these are another; defaults are taken for all 4 "
                                      "keys"}));
}

// A server's steps have any number of tokens: no range of the file may be overlooked.
TEST(CpuLayer, AsksForPowersOfTwoAndTheFilesOwnNumbers) {
  const CpuLayer layer = test_layer();
  const TuningTable table = table_of({entry_of(down_shape(layer), 3, 3, portable(1)),
                                      entry_of(gate_up_shape(layer), 10, 12, portable(1)),
                                      entry_of(gate_up_shape(layer), 64, 256, portable(1))});
  EXPECT_EQ(tokens_up_to(table, layer, 20), (std::vector<std::int64_t>{1, 2, 3, 4, 8, 12, 16, 20}));
  EXPECT_EQ(tokens_up_to(table, layer, 1), (std::vector<std::int64_t>{1}));
}

TEST(CpuSite, NamesThisProcessorAndItsKernels) {
  const TuningSite site = cpu_tuning_site();
  EXPECT_FALSE(site.device.empty());
  EXPECT_GE(site.units, 1);
  EXPECT_EQ(site.driver, "none");
  EXPECT_TRUE(site.kernel_version.ends_with(std::string(" ") + std::string(to_string(best_isa()))))
      << site.kernel_version;
}

}  // namespace
}  // namespace nibble::tune
