// The built-in GLM-5 case against answers worked by hand.
#include "explain/explain.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "explain/explain_expect.h"

namespace nibble {
namespace {

class GlmTest : public testing::Test {
 protected:
  static const CaseAnalysis& analysis() {
    static const CaseAnalysis kAnalysis = explain_document(case_document(kGlm));
    return kAnalysis;
  }
};

TEST_F(GlmTest, Point1ArithmeticIntensity) {
  // FLOP 2*16*2048*6144 = 402,653,184; elements 16*6144 + 2048*6144 = 12,681,216: 31.75.
  expect_value(analysis(), "intensity.elements.nvfp4.16x2048x6144", 31.8);
  expect_value(analysis(), "intensity.bf16.nvfp4.16x2048x6144", 15.9);
  // Weights 2048*6144*0.5625 = 7,077,888 B, bf16 activations 196,608 B, output 65,536 B: 54.86.
  expect_value(analysis(), "intensity.nvfp4.16x2048x6144", 54.9);
  // nvfp4 activations 16*6144*0.5625 = 55,296 B: 402,653,184 / 7,198,720 = 55.93.
  expect_value(analysis(), "intensity.native.nvfp4.16x2048x6144", 55.9);
  // 1850e12 / 1597e9 = 1158; 1158 / 54.86 = 21.1.
  expect_value(analysis(), "ridge.fp4", 1158);
  expect_value(analysis(), "intensity.below_ridge.nvfp4.16x2048x6144", 21.1);
  EXPECT_EQ(verdict_of(analysis(), "intensity.below_ridge.nvfp4.16x2048x6144"), "memory roof");
  expect_says(analysis(), "intensity.nvfp4.16x2048x6144", "0.5625 B");
}

TEST_F(GlmTest, Point2Yardstick) {
  // 402,653,184 FLOP / 0.8e12 = 503.3 us; 7,340,032 B / 1597e9 = 4.596 us; / 1850e12 = 0.2177 us.
  expect_value(analysis(), "kernel.time.nvfp4.16x2048x6144", 503.3);
  expect_value(analysis(), "kernel.memory_floor.nvfp4.16x2048x6144", 4.6);
  expect_says(analysis(), "kernel.memory_floor.nvfp4.16x2048x6144", "4.508 us with nvfp4");
  expect_value(analysis(), "kernel.compute_floor.nvfp4.16x2048x6144", 0.2177);
  expect_value(analysis(), "kernel.over_memory.nvfp4.16x2048x6144", 110);
  expect_value(analysis(), "kernel.over_compute.nvfp4.16x2048x6144", 2312);
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.nvfp4.16x2048x6144"), "launch or latency");
  // 54.86 / 1158 = 4.74 % of peak; 0.8 / 1850 = 0.0432 %.
  expect_value(analysis(), "kernel.ceiling.nvfp4.16x2048x6144", 4.74);
  expect_value(analysis(), "kernel.share_of_peak.nvfp4.16x2048x6144", 0.0432);
  expect_value(analysis(), "kernel.cache.nvfp4.16x2048x6144", 7.08e6);
  EXPECT_EQ(verdict_of(analysis(), "kernel.cache.nvfp4.16x2048x6144"), "fits L2, cold: not stated");
  // 1300 / 1850 of a kernel whose shape is not stated.
  expect_value(analysis(), "kernel.share_of_peak.nvfp4.large", 70.3);
}

TEST_F(GlmTest, Point3RowsPerExpert) {
  // 256 * (1 - (1 - 8/256)^B): 101.97, 163.3, 222.4, 255.9; rows B*8 / distinct.
  expect_value(analysis(), "routing.distinct.16", 101.97);
  expect_value(analysis(), "routing.distinct.32", 163.3);
  expect_value(analysis(), "routing.distinct.64", 222.4);
  expect_value(analysis(), "routing.distinct.256", 255.92);
  expect_value(analysis(), "routing.rows.16", 128 / 101.97);
  expect_value(analysis(), "routing.rows.64", 2.302);
  expect_value(analysis(), "routing.rows.512", 16);
  expect_value(analysis(), "routing.rows.1024", 32);
  // Only 1,024 of 2,048 requests run.
  expect_value(analysis(), "routing.rows.2048", 32);
  // Monte Carlo of facts/moe_arithmetic.md, 4.1: 3.3, 4.7, 6.8, 16.9 (20,000 draws).
  for (const auto& [tokens, most] : {std::pair{16, 3.3}, {32, 4.7}, {64, 6.8}, {256, 16.9}}) {
    EXPECT_NEAR(value_of(analysis(), fmt::format("routing.busiest.{}", tokens)), most, 0.03 * most);
  }
  // The same source, 8 ranks: max/mean 1.36 at 16 tokens, 1.18 at 64, 1.09 at 256, 1.04 at 1,024.
  for (const auto& [tokens, ratio] : {std::pair{16, 1.36}, {64, 1.18}, {256, 1.09}, {1024, 1.04}}) {
    EXPECT_NEAR(value_of(analysis(), fmt::format("routing.rank.{}", tokens)), ratio * tokens,
                0.02 * ratio * tokens);
  }
  ASSERT_TRUE(analysis().levels[1].spread.has_value());
  EXPECT_EQ(analysis().levels[1].spread->rows_p50, 16);  // Binomial(512, 1/32): median 16
}

TEST_F(GlmTest, Point4ShapesOnTheRank) {
  // 2048 / 8 = 256 columns of gate and of up: [m, 512, 6144] and [m, 6144, 256].
  expect_value(analysis(), "shapes.gate_up", 512);
  expect_value(analysis(), "shapes.down", 256);
  expect_says(analysis(), "shapes.gate_up", "[m, 512, 6144]");
  expect_says(analysis(), "shapes.down", "[m, 6144, 256]");
  EXPECT_EQ(verdict_of(analysis(), "shapes.gate_up"), "was not timed");
}

TEST_F(GlmTest, Point5Step) {
  // 1024 / 1601 = 639.6 ms.
  expect_value(analysis(), "step.1024.measured", 639.6e3);
  // 3*6144*2048 * 0.5625 / 8 = 2,654,208 B an expert; 256 of them 679.5 MB; 75 layers at 1597 GB/s.
  expect_value(analysis(), "step.1024.expert_weights", 31.91e3);
  expect_says(analysis(), "step.1024.expert_weights", "75 layers x 679.5 MB at 1597 GB/s");
  // Other weights per GPU, parameters: attention 78 * (25,493,504 replicated + 148,897,792 / 8);
  // shared experts 75 * 37,748,736 / 8; dense 3 * 226,492,416 / 8; router 75 * 1,572,864 / 8;
  // lm_head 951,582,720 / 8: 4,012,560,384, two bytes each: 8.025 GB.
  expect_value(analysis(), "step.1024.other_weights", 8.025e9 / 1597e3);
  // 1024 sequences * 192 tokens (and one written) * 78 layers * (1152 + 132) B = 19.79 GB.
  expect_value(analysis(), "step.1024.kv", 1024.0 * 193 * 78 * 1284 / 1597e3);
  // 156 all-reduces of 1024*6144*2 B = 12.58 MB: 2*7/8 * 12.58 MB / 64 GB/s = 344.1 us, and the
  // two hops of 1 us of two-shot, the fastest.
  expect_value(analysis(), "step.1024.collectives", 156 * (344.06 + 2));
  EXPECT_EQ(verdict_of(analysis(), "step.1024.accounting"), "(no finding)");
}

TEST_F(GlmTest, Point5Collectives) {
  expect_value(analysis(), "collectives.ring.pcie5-x16", 53.7e3);
  expect_value(analysis(), "collectives.ring.pcie5-x16-collective", 98.1e3);
  expect_value(analysis(), "collectives.two-shot.pcie5-x16", 53.7e3);
  // One-shot sends 7 S: four times the 1.75 S of ring.
  expect_value(analysis(), "collectives.one-shot.pcie5-x16", 4 * 53.7e3);
  expect_says(analysis(), "collectives.ring.pcie5-x16", "156 all-reduces of 12.58 MB over 8 GPUs");
  // Two-shot at 64 GB/s with two hops: 53.67 + 0.31 ms; one-shot at 35 GB/s: 392.6 + 0.9 ms.
  expect_value(analysis(), "collectives.verdict", 393.5e3 - 53.99e3);
  EXPECT_EQ(verdict_of(analysis(), "collectives.verdict"), "collectives could be the larger part");
}

TEST_F(GlmTest, WaterfallsAddUpToTheMeasuredStep) {
  ASSERT_EQ(analysis().levels.size(), 4U);
  EXPECT_EQ(analysis().headline, 2U);
  for (const LevelAnalysis& level : analysis().levels) {
    double total = 0;
    for (const WaterfallTerm& term : level.waterfall) {
      EXPECT_GE(term.time_us, 0) << term.id;
      total += term.time_us;
    }
    EXPECT_NEAR(total, level.measured_step_us, 1e-9 * level.measured_step_us);
    EXPECT_EQ(level.waterfall.back().id, "unexplained");
    // The decode terms are the floor: nothing lost between the two.
    double decode = 0;
    for (const WaterfallTerm& term : level.waterfall) {
      if (term.id != "prefill" && term.id != "unexplained") decode += term.time_us;
    }
    EXPECT_NEAR(decode, level.floor.step_us, 1e-9 * level.floor.step_us);
    ASSERT_TRUE(level.prefill.has_value());
    // 128 prompt tokens for 128 generated ones: as many prompt tokens as sequences a step.
    EXPECT_NEAR(level.prefill->rows * level.prefill_passes, level.running, 1e-9 * level.running);
  }
}

TEST_F(GlmTest, Point6Fp4AgainstBf16) {
  expect_value(analysis(), "formats.peak.nvfp4.512x2048x6144.bf16", 4);
  expect_value(analysis(), "formats.bytes.nvfp4.512x2048x6144.bf16", 16 / 4.5);
  expect_value(analysis(), "formats.measured.nvfp4.512x2048x6144.bf16", 437.0 / 225);
  // FLOP 12,884,901,888: 6.965 us at 1850, 27.86 us at 462.5 TFLOPS; 29.48 and 57.27 us measured.
  expect_value(analysis(), "kernel.compute_floor.nvfp4.512x2048x6144", 6.97);
  expect_value(analysis(), "kernel.compute_floor.bf16.512x2048x6144", 27.9);
  // 7,077,888 + 512*6144*0.5625 + 512*2048*2 = 10,944,512 B: 6.853 us.
  EXPECT_NEAR(analysis().kernels[3].memory_us, 6.85, 0.01 * 6.85);
  expect_value(analysis(), "formats.excess.nvfp4.512x2048x6144", 29.48 - 6.965);
  expect_value(analysis(), "formats.excess.bf16.512x2048x6144", 57.27 - 27.86);
  // 4 x 16 tiles on 188 SMs: 1850 * 64 / 188.
  expect_value(analysis(), "tiles.coverage.nvfp4.512x2048x6144", 630);
}

TEST_F(GlmTest, Point7Power) {
  // Mean of eight samples 1884.85 / 8 = 235.6 W of 600 W.
  expect_value(analysis(), "power.share.1024", 39.27);
  // Catalog: idle 60, waiting 140, copy 365 W: (235.6 - 140) / 225 = 42.5 %, (235.6 - 60) / 305
  // = 57.6 %.
  expect_value(analysis(), "power.position.1024", 42.5);
  EXPECT_EQ(verdict_of(analysis(), "power.position.1024"), "between waiting and copy");
  EXPECT_EQ(find(analysis(), "power.position.1024")->confidence, Confidence::kPossible);
  expect_says(analysis(), "power.position.1024", "42.5 % to 57.6 %");
  expect_value(analysis(), "utilization.1024", 100);
}

TEST_F(GlmTest, Point8Plateau) {
  // ln(1640/1601) / ln(2) = 0.0347.
  expect_value(analysis(), "plateau", 0.0347);
  EXPECT_EQ(verdict_of(analysis(), "plateau"), "consistent with max_running_requests");
  EXPECT_EQ(find(analysis(), "plateau")->confidence, Confidence::kPossible);
  EXPECT_EQ(verdict_of(analysis(), "plateau.missing_signals"), "queue length, TTFT, ITL");
  expect_value(analysis(), "kv.per_token", 78 * (1152 + 132));
  // Weights 50.96 (experts) + 8.025 + 0.238 GB (embedding); 0.9 * 96 - 59.22 = 27.18 GB of cache.
  expect_value(analysis(), "kv.tokens", 27.18e9 / 100152);
  expect_value(analysis(), "kv.fit.mean", 27.18e9 / 100152 / 192);
  expect_value(analysis(), "kv.fit.full", 27.18e9 / 100152 / 256);
  EXPECT_EQ(verdict_of(analysis(), "kv.fit.mean"), "does not fit");
  EXPECT_EQ(verdict_of(analysis(), "kv.fit.full"), "does not fit");
}

TEST_F(GlmTest, Point9Tiles) {
  // facts/sm120.md 1.3: sizeof(SharedStorage) of CUTLASS's grouped kernels, limit 101,376 B.
  expect_value(analysis(), "tile.limit", 101376);
  EXPECT_EQ(verdict_of(analysis(), "tile.limit"), "agrees with the report");
  EXPECT_EQ(value_of(analysis(), "tile.128x128x128"), 89088);
  EXPECT_EQ(value_of(analysis(), "tile.128x256x128"), 98304);
  EXPECT_EQ(value_of(analysis(), "tile.256x128x128"), 98304);
  EXPECT_EQ(value_of(analysis(), "tile.128x64x128"), 101376);
  EXPECT_EQ(value_of(analysis(), "tile.failed.128x256"), 101376 - 98304);
  EXPECT_EQ(verdict_of(analysis(), "tile.failed.128x256"), "fits when the launcher leaves room");
  EXPECT_EQ(verdict_of(analysis(), "tile.failed.256x128"), "fits when the launcher leaves room");
  // 227 KiB hold eight stages more of 18,432 B at 128x128x128: 89,088 + 7 * 18,432 = 218,112 B.
  EXPECT_EQ(value_of(analysis(), "tile.elsewhere.128x128x128"), 218112);
  // 256 groups * 256 rows * 2 * (512*6144 + 6144*256) / 1850e12 = 334 us against 425 us of weights.
  EXPECT_EQ(value_of(analysis(), "tile.win.512"), 0);
  EXPECT_EQ(verdict_of(analysis(), "tile.win.512"), "nothing");
  expect_says(analysis(), "tile.win.512", "At 16.00 rows per expert");
}

TEST_F(GlmTest, Point10Layouts) {
  expect_value(analysis(), "layouts.measured.tp4pp2.512", 1318.0 / 2800);
  // TP8 at 512: 50.96 + 8.03 + 512*193*100,152 B = 68.88 GB. TP4 x PP2, last stage, each of two
  // microbatches: experts 39 * 255.92 * 5,308,416 B = 52.98 GB, attention 39 * 62,717,952 * 2 B,
  // shared 39 * 9,437,184 * 2 B, router 39 * 393,216 * 2 B, lm_head 475.8 MB: 6.135 GB; cache
  // 256*193*39*1284 B = 2.474 GB: 2 * 61.59 GB.
  expect_value(analysis(), "layouts.predicted.tp4pp2.512", 68.88 / 123.18);
  EXPECT_EQ(verdict_of(analysis(), "layouts.verdict.tp4pp2.512"), "as bandwidth predicts");
  // 1106 output at equal lengths are 2212 in total.
  expect_value(analysis(), "layouts.agreement.tp8pp1.512", 2800.0 / 2212);
  EXPECT_EQ(verdict_of(analysis(), "layouts.agreement.tp8pp1.512"), "disagrees");
}

TEST_F(GlmTest, Point11SparseOrDense) {
  expect_value(analysis(), "peak.used", 1850);
  EXPECT_EQ(verdict_of(analysis(), "peak.used"), "sparse (assumed)");
  EXPECT_EQ(verdict_of(analysis(), "peak.ratio"), "2:4 sparsity");
  // Every finding says whether it hangs on the switch.
  const auto depends = [&](std::string_view id) {
    for (const std::string& assumption : find(analysis(), id)->assumptions) {
      if (assumption.find("dense would change this") != std::string::npos) return true;
    }
    return false;
  };
  for (const char* id :
       {"ridge.fp4", "ridge.bf16", "intensity.below_ridge.nvfp4.16x2048x6144",
        "kernel.compute_floor.nvfp4.16x2048x6144", "kernel.share_of_peak.nvfp4.large",
        "tiles.coverage.nvfp4.512x2048x6144", "formats.excess.bf16.512x2048x6144"}) {
    EXPECT_TRUE(depends(id)) << id;
  }
  for (const char* id :
       {"intensity.nvfp4.16x2048x6144", "kernel.over_memory.nvfp4.16x2048x6144",
        "kernel.regime.nvfp4.16x2048x6144", "step.1024.expert_weights", "plateau", "kv.fit.full",
        "formats.peak.nvfp4.512x2048x6144.bf16", "little.1024.ratio", "tile.win.512"}) {
    EXPECT_FALSE(depends(id)) << id;
  }
}

TEST_F(GlmTest, Point12Proposals) {
  const std::vector<Proposal>& proposals = analysis().proposals;
  ASSERT_GE(proposals.size(), 7U);
  // 639.6 - 264 ms lie between decode steps: the largest bound, 639.6 / 264 in throughput.
  EXPECT_EQ(proposals[0].id, "prefill_schedule");
  EXPECT_NEAR(proposals[0].at_most_us, 375.6e3, 3.8e3);
  EXPECT_NEAR(proposals[0].at_most_ratio, 2.42, 0.02);
  for (std::size_t index = 1; index < proposals.size(); ++index) {
    EXPECT_GE(proposals[index - 1].at_most_us, proposals[index].at_most_us);
    EXPECT_FALSE(proposals[index].experiment.empty());
  }
  // 1,413 sequences fit at their mean length: 1413 / 1024 = 1.38.
  const auto cap = std::find_if(proposals.begin(), proposals.end(),
                                [](const Proposal& p) { return p.id == "max_running_requests"; });
  ASSERT_NE(cap, proposals.end());
  EXPECT_NEAR(cap->at_most_ratio, 1.38, 0.014);
  EXPECT_EQ(proposals.back().id, "large_tiles");
  EXPECT_EQ(proposals.back().at_most_us, 0);
  expect_value(analysis(), "tuning.2048", 2095.0 / 1640);
}

TEST_F(GlmTest, Point13LittlesLaw) {
  // Concurrency over rate: 256/704, 512/1106, 1024/1601, 2048/1640.
  expect_value(analysis(), "little.256.step", 364);
  expect_value(analysis(), "little.512.step", 463);
  expect_value(analysis(), "little.1024.step", 640);
  expect_value(analysis(), "little.2048.step", 1249);
  expect_value(analysis(), "little.1024.implied_rate", 3879);
  expect_value(analysis(), "little.1024.ratio", 2.42);
  EXPECT_EQ(verdict_of(analysis(), "little.1024.ratio"), "not steady");
}

TEST_F(GlmTest, Point14SourcesThatDisagree) {
  expect_value(analysis(), "parameters", 743.9e9);
  expect_value(analysis(), "claim.parameters", 405 / 743.9);
  EXPECT_EQ(verdict_of(analysis(), "claim.parameters"), "disagrees");
  // The catalog's dense peak is 1871.2 TFLOPS.
  expect_value(analysis(), "disagreement.machine.fp4_tflops_dense_assumed", 1850 / 1871.2);
}

TEST_F(GlmTest, FindingsAreComplete) {
  std::set<std::string> ids;
  std::set<int> points;
  int last_point = 0;
  for (const Finding& finding : analysis().findings) {
    EXPECT_TRUE(ids.insert(finding.id).second) << finding.id;
    EXPECT_GE(finding.point, last_point) << finding.id;
    last_point = finding.point;
    points.insert(finding.point);
    EXPECT_TRUE(finding.value || !finding.verdict.empty() || !finding.missing.empty())
        << finding.id;
    EXPECT_FALSE(finding.sentence.empty()) << finding.id;
    EXPECT_TRUE(finding.sentence.ends_with('.')) << finding.sentence;
    if (!finding.missing.empty()) continue;
    EXPECT_FALSE(finding.inputs.empty()) << finding.id;
    for (const FindingInput& input : finding.inputs)
      EXPECT_FALSE(input.source.empty()) << finding.id;
    EXPECT_TRUE(!finding.value || std::isfinite(*finding.value)) << finding.id;
  }
  EXPECT_EQ(points.size(), 14U);
}

TEST_F(GlmTest, JsonHoldsAll) {
  const Json json = to_json(analysis());
  EXPECT_EQ(json.find("kernels")->as_array().size(), 5U);
  EXPECT_EQ(json.find("levels")->as_array().size(), 4U);
  EXPECT_EQ(json.find("findings")->as_array().size(), analysis().findings.size());
  EXPECT_EQ(json.find("tiles")->as_array().size(), 12U);
}

}  // namespace
}  // namespace nibble
