#include "ledger/step.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "ledger/test_deployments.h"

namespace nibble {
namespace {

constexpr double kGB = 1e9;

Step decode(const Deployment& deployment, double concurrency) {
  Result<Step> step = decode_step(deployment, concurrency);
  EXPECT_TRUE(step.ok()) << (step.ok() ? "" : step.error().message);
  return step.ok() ? *step : Step{};
}

// The step table of the facts on MoE arithmetic (4.6), computed apart from this program: weights
// and KV per GPU, and their sum over the data sheet's bandwidth.
struct KnownStep {
  const char* model;
  const char* machine;
  std::int64_t tp;
  double context, bandwidth_gb_s, concurrency, distinct, weights_gb, kv_gb, time_ms;
};
constexpr KnownStep kKnownSteps[] = {
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 1, 8, 8.55, 0.116, 4.84},
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 8, 57.4, 18.39, 0.93, 10.78},
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 32, 163.3, 39.47, 3.72, 24.10},
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 64, 222.4, 51.24, 7.43, 32.74},
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 128, 251.6, 57.04, 14.87, 40.13},
    {"glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 1792, 256, 255.9, 57.90, 29.73, 48.90},
    {"deepseek-r1", "h200", 8, 4096, 4800, 1, 8, 5.52, 0.288, 1.21},
    {"deepseek-r1", "h200", 8, 4096, 4800, 32, 163.3, 55.11, 9.21, 13.40},
    {"deepseek-r1", "h200", 8, 4096, 4800, 128, 251.6, 83.29, 36.84, 25.03},
    {"qwen3-30b-a3b", "h200", 1, 1024, 4800, 1, 8, 6.08, 0.101, 1.29},
    {"qwen3-30b-a3b", "h200", 1, 1024, 4800, 32, 111.8, 53.09, 3.22, 11.73},
    {"qwen3-30b-a3b", "h200", 1, 1024, 4800, 256, 128, 60.44, 25.77, 17.96},
};

TEST(Step, TheStepTableOfTheFacts) {
  for (const KnownStep& known : kKnownSteps) {
    Deployment deployment = deployment_of(known.model, known.machine, {.tp = known.tp});
    deployment.context = known.context;
    const Step step = decode(deployment, known.concurrency);
    const std::string label = fmt::format("{} at {}", known.model, known.concurrency);
    EXPECT_NEAR(deployment.machine.bandwidth_gb_s.value, known.bandwidth_gb_s, 1e-9) << label;
    EXPECT_NEAR(step.routing->distinct, known.distinct, 0.06) << label;
    EXPECT_NEAR(step.weight_bytes / kGB, known.weights_gb, 0.01 * known.weights_gb) << label;
    EXPECT_NEAR(step.kv_bytes / kGB, known.kv_gb, 0.01 * known.kv_gb) << label;
    EXPECT_NEAR(step.weights_and_kv_us / 1e3, known.time_ms, 0.01 * known.time_ms) << label;
    // The ledger's own floor adds activations, collectives and launches: never below that sum.
    EXPECT_GE(step.step_us, step.weights_and_kv_us) << label;
  }
}

TEST(Step, ExpertWeightsOfGlm5AtAThousandTokens) {
  // 256 experts x 3 x 6144 x 2048 / 8 x 0.5625 B = 679.5 MB a layer and rank; 75 layers at
  // 1,597 GB/s: 31.91 ms.
  const Step step = decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8}), 1024);
  const Op& gate_up = find_op(step, "moe.gate_up");
  const Op& down = find_op(step, "moe.down");
  EXPECT_EQ(gate_up.count, 75);
  const double layer_bytes = gate_up.bytes.weight_bytes + down.bytes.weight_bytes;
  EXPECT_NEAR(layer_bytes, 679.5e6, 0.01 * 679.5e6);
  EXPECT_NEAR(75 * layer_bytes / 1597e3, 31910, 0.01 * 31910);
  // Scales are one byte for sixteen weights of half a byte: a ninth.
  EXPECT_NEAR(gate_up.bytes.scale_bytes, gate_up.bytes.weight_bytes / 9, 1);
}

TEST(Step, ShapesOnTheRank) {
  // 2048 / 8 = 256 per GPU: gate and up are 512 rows, down has K = 256.
  const Step step = decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8}), 1024);
  EXPECT_EQ(find_op(step, "moe.gate_up").shape.n, 512);
  EXPECT_EQ(find_op(step, "moe.gate_up").shape.k, 6144);
  EXPECT_EQ(find_op(step, "moe.down").shape.n, 6144);
  EXPECT_EQ(find_op(step, "moe.down").shape.k, 256);
  EXPECT_NEAR(find_op(step, "moe.gate_up").shape.m, 32, 0.01);  // 1024 x 8 / 256
}

TEST(Step, AllReducesOfGlm5) {
  Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  deployment.link = LinkSpeed{64, 0};
  deployment.all_reduce = AllReduce::kRing;
  const Step step = decode(deployment, 1024);
  double count = 0;
  double time_us = 0;
  for (const Op& op : step.ops) {
    if (op.name.ends_with("all_reduce")) {
      count += op.count;
      time_us += op.count * op.link_us;
    }
  }
  EXPECT_EQ(count, 156);           // two a layer, 78 layers
  EXPECT_NEAR(time_us, 53674, 1);  // 156 x 344.064 us
  EXPECT_NEAR(step.link_us, 53674, 1);
}

TEST(Step, MlaLatentsAreReplicated) {
  // q_a 2048 x 6144 and kv_a 576 x 6144 in bf16 are whole on every rank: 32.24 MB.
  const Step step = decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8}), 1);
  EXPECT_DOUBLE_EQ(find_op(step, "attn.qkv_a").bytes.weight_bytes, (2048.0 + 576) * 6144 * 2);
  // The latent KV does not shrink with TP; without TP it is the same.
  const Step one = decode(deployment_of("glm-5-nvfp4", "b200", {.tp = 1}), 1);
  EXPECT_DOUBLE_EQ(find_op(step, "attn.core").bytes.kv_bytes,
                   find_op(one, "attn.core").bytes.kv_bytes);
}

TEST(Step, KvHeadsBelowTpAreRepeated) {
  // Qwen3-235B has 4 KV heads: under TP8 each rank holds one, as under TP4.
  const Step four = decode(deployment_of("qwen3-235b-a22b", "h200", {.tp = 4}), 8);
  const Step eight = decode(deployment_of("qwen3-235b-a22b", "h200", {.tp = 8}), 8);
  EXPECT_DOUBLE_EQ(four.kv_bytes, eight.kv_bytes);
}

TEST(Step, PipelineReadsWeightsOncePerMicrobatch) {
  // TP4 x PP2 with two microbatches: half the layers, twice the bytes each, read twice.
  const Step tp = decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8}), 1024);
  const Step pp =
      decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 4, .pp = 2}), 1024);
  EXPECT_EQ(pp.microbatches, 2);
  // All 256 experts are touched by 512 tokens too (255.99998): the ratio is 2 x 39 x 2 / 75 of
  // expert bytes on the stage with 39 MoE layers.
  const double ratio =
      total_weight_bytes(pp, "moe.gate_up") / total_weight_bytes(tp, "moe.gate_up");
  EXPECT_NEAR(ratio, 2.0 * 2 * 39 / 75, 0.01);
}

TEST(Step, FewSequencesLeaveStagesWaiting) {
  const Deployment deployment =
      deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 4, .pp = 2});
  const Step step = decode(deployment, 1);
  EXPECT_EQ(step.microbatches, 1);
  EXPECT_NEAR(step.pipeline_bubble_us, step.step_us / 2, 1e-6 * step.step_us);  // one of two turns
}

TEST(Step, DpAttentionDividesKvAndUsesCollectivesOfItsOwn) {
  const Step tp = decode(deployment_of("deepseek-r1", "h200", {.tp = 8}), 256);
  const Step dp =
      decode(deployment_of("deepseek-r1", "h200", {.tp = 8, .dp_attention = true}), 256);
  EXPECT_NEAR(dp.kv_bytes, tp.kv_bytes / 8, 1);  // 32 of 256 sequences on each rank
  EXPECT_EQ(find_op(dp, "moe.all_gather").count, 58);
  EXPECT_EQ(find_op(dp, "moe.reduce_scatter").count, 58);
  const Step ep =
      decode(deployment_of("deepseek-r1", "h200", {.tp = 8, .ep = 8, .dp_attention = true}), 256);
  EXPECT_EQ(find_op(ep, "moe.dispatch").count, 58);
  // vLLM's words for the same: eight attention groups of one GPU.
  const Step vllm = decode(deployment_of("deepseek-r1", "h200", {.tp = 1, .dp = 8, .ep = 8}), 256);
  EXPECT_DOUBLE_EQ(find_op(vllm, "moe.gate_up").bytes.weight_bytes,
                   find_op(ep, "moe.gate_up").bytes.weight_bytes);
  EXPECT_DOUBLE_EQ(vllm.kv_bytes, ep.kv_bytes);
}

TEST(Step, ExpertParallelPricesTheBusiestRank) {
  // 16 tokens on 8 ranks: 16.9 distinct experts on the fullest rank, 12.8 on average.
  const Step step = decode(deployment_of("deepseek-r1", "h200", {.tp = 8, .ep = 8}), 16);
  EXPECT_NEAR(find_op(step, "moe.gate_up").shape.groups, 16.9, 0.3);
}

TEST(Step, DraftTokensMultiplyRows) {
  Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  deployment.draft_tokens = 3;
  const Step step = decode(deployment, 8);
  EXPECT_EQ(step.rows, 32);
  EXPECT_NEAR(step.routing->distinct, 163.3, 0.06);  // as 32 tokens
  // The cache of each sequence is read once for its four rows.
  deployment.draft_tokens = 0;
  const Step plain = decode(deployment, 8);
  EXPECT_NEAR(step.kv_bytes / plain.kv_bytes, 1, 0.01);
}

TEST(Step, SlidingWindowsReadTheirWindow) {
  // gpt-oss-120b: 18 layers full, 18 with 128 tokens; 8 KV heads of 64 in bf16: 2048 B a token.
  Deployment deployment = deployment_of("gpt-oss-120b", "h200", {.tp = 1});
  deployment.context = 8192;
  deployment.kv_format = Format::kBf16;
  const Step step = decode(deployment, 1);
  const double written = 36 * 2048;
  EXPECT_DOUBLE_EQ(step.kv_bytes, 18 * 2048.0 * 8192 + 18 * 2048.0 * 128 + written);
}

TEST(Step, WideningOnAChipWithoutFp4) {
  // An H200 multiplies NVFP4 weights in bf16; an RTX PRO 6000 in FP4.
  EXPECT_EQ(
      find_op(decode(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}), 64), "moe.gate_up").precision,
      Precision::kBf16);
  EXPECT_EQ(find_op(decode(deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8}), 64),
                    "moe.gate_up")
                .precision,
            Precision::kFp4);
}

TEST(Step, TotalsAreTheSumsOfTheOperations) {
  for (const char* model : {"glm-5-nvfp4", "qwen3-30b-a3b", "llama-4-maverick"}) {
    const Step step = decode(deployment_of(model, "b200", {.tp = 8, .pp = 2}), 100);
    double floor_us = 0;
    for (const Op& op : step.ops) {
      EXPECT_GE(op.floor_us, std::max({op.memory_us, op.compute_us, op.link_us})) << op.name;
      EXPECT_LE(op.dram_activity, 1 + 1e-12) << op.name;
      EXPECT_LE(op.tensor_activity, 1 + 1e-12) << op.name;
      floor_us += op.count * op.floor_us;
    }
    EXPECT_NEAR(floor_us + step.pipeline_bubble_us, step.step_us, 1e-6 * step.step_us) << model;
    EXPECT_NEAR(step.bound_memory_us + step.bound_compute_us + step.bound_link_us +
                    step.bound_launch_us + step.pipeline_bubble_us,
                step.step_us, 1e-6 * step.step_us)
        << model;
  }
}

TEST(Step, PrefillIsComputeBoundAndCostsTwoFlopAParameter) {
  // 4,096 tokens of one sequence on one B200: about 2 x active x tokens FLOP in the matrices.
  Deployment deployment = deployment_of("qwen3-30b-a3b", "b200", {.tp = 1});
  const Result<Step> step = prefill_chunk(deployment, 4096, 1, 0);
  ASSERT_TRUE(step.ok());
  const double active = count_parameters(deployment.model).active;
  const double attention = 48 * 4.0 * 32 * 128 * (4096.0 * 4097 / 2);  // causal pairs
  const double head = 2.0 * 151936 * 2048 * 4095;  // logits of the last token only
  EXPECT_NEAR(step->flop, 2 * active * 4096 + attention - head, 0.01 * step->flop);
}

TEST(Step, TileCoverageRaisesTheComputeTerm) {
  Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  const Op plain = find_op(decode(deployment, 1024), "moe.gate_up");
  deployment.tile = TileShape{128, 128, 128};
  const Op tiled = find_op(decode(deployment, 1024), "moe.gate_up");
  // 256 groups x 1 x 4 = 1,024 tiles on 188 SMs are 6 waves (1,128 slots); 32 of 128 rows are real.
  EXPECT_NEAR(*tiled.coverage, 1024.0 / 1128, 1e-9);
  EXPECT_NEAR(*tiled.padding, 32.0 / 128, 1e-6);
  // Idle SMs and padded rows are not work: the activity of the tensor cores does not rise.
  EXPECT_EQ(tiled.compute_us, plain.compute_us);
  EXPECT_LE(tiled.tensor_activity, plain.tensor_activity);
  EXPECT_NEAR(tiled.tile_us / plain.compute_us, 4 * 1128.0 / 1024, 1e-6);
}

TEST(Capacity, Glm5OnEightCards) {
  // 78 x (1152 + 132) = 100,152 B per token and GPU in bf16 with the index.
  Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  deployment.kv_format = Format::kBf16;
  const Result<Capacity> capacity = kv_capacity(deployment);
  ASSERT_TRUE(capacity.ok());
  EXPECT_DOUBLE_EQ(capacity->kv_bytes_per_token, 78 * (1152.0 + 132));
  // "57 GB/GPU at TP8" in field reports; ours leaves out the MTP layer.
  EXPECT_NEAR(capacity->weight_bytes_per_gpu / kGB, 57, 0.05 * 57);
  EXPECT_NEAR(capacity->tokens, (96e9 * 0.9 - capacity->weight_bytes_per_gpu) / 100152, 1);
}

TEST(Capacity, WeightsThatDoNotFit) {
  const Result<Capacity> capacity = kv_capacity(deployment_of("deepseek-r1", "h200", {.tp = 2}));
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->tokens, 0);
  EXPECT_NE(capacity->limit.find("the weights alone take"), std::string::npos);
}

TEST(Capacity, KvBytes) {
  AttentionSpec mla{
      .kind = AttentionKind::kMla, .heads = 128, .kv_lora_rank = 512, .qk_rope_head_dim = 64};
  EXPECT_EQ(kv_bytes_per_token_and_layer(mla, Format::kBf16, 8), 1152);
  EXPECT_EQ(kv_bytes_per_token_and_layer(mla, Format::kFp8, 8), 656);  // FlashMLA's layout
  AttentionSpec gqa{.heads = 64, .kv_heads = 4, .head_dim = 128};
  EXPECT_EQ(kv_bytes_per_token_and_layer(gqa, Format::kBf16, 1), 2 * 4 * 128 * 2);
  EXPECT_EQ(kv_bytes_per_token_and_layer(gqa, Format::kFp8, 8), 2 * 128);
}

TEST(Step, BlocksThatDoNotDivideAreNamed) {
  // 768 / 8 = 96 columns of down under TP8: no whole block of 128, but six of 16.
  const Op fp8 =
      find_op(decode(deployment_of("qwen3-30b-a3b-fp8", "h200", {.tp = 8}), 8), "moe.down");
  EXPECT_EQ(fp8.misaligned,
            "K = 96 on a GPU is no multiple of the 128-wide blocks of fp8-block128");
  EXPECT_EQ(find_op(decode(deployment_of("qwen3-30b-a3b-nvfp4", "b200", {.tp = 8}), 8), "moe.down")
                .misaligned,
            "");
  EXPECT_EQ(find_op(decode(deployment_of("qwen3-30b-a3b-fp8", "h200", {.tp = 1}), 8), "moe.down")
                .misaligned,
            "");
}

TEST(Step, AWidenedProductSaysSo) {
  const Op widened =
      find_op(decode(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}), 8), "moe.gate_up");
  EXPECT_EQ(widened.format, "nvfp4 x bf16");
  EXPECT_NE(widened.note.find("bf16"), std::string::npos) << widened.note;
  const Op native =
      find_op(decode(deployment_of("glm-5-nvfp4", "b200", {.tp = 8}), 8), "moe.gate_up");
  EXPECT_EQ(native.format, "nvfp4 x nvfp4");
  EXPECT_EQ(native.note, "");
}

TEST(Step, RecordedCountsNeedOneListOrOneAMoeLayer) {
  Deployment deployment = deployment_of("glm-5-nvfp4", "b200", {.tp = 8});
  deployment.routing = {.kind = Routing::Kind::kRecorded, .source = "counts.json"};
  deployment.routing.counts.assign(75, std::vector<double>(256, 1));
  EXPECT_TRUE(decode_step(deployment, 32).ok());
  deployment.routing.counts.resize(3);
  const Result<Step> result = decode_step(deployment, 32);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("75 MoE layers"), std::string::npos);
}

TEST(Step, BadNumbersAreRefused) {
  Deployment deployment = deployment_of("glm-5-nvfp4", "rtx-pro-6000-server", {.tp = 8});
  EXPECT_FALSE(decode_step(deployment, 0).ok());
  EXPECT_FALSE(decode_step(deployment, -1).ok());
  EXPECT_FALSE(decode_step(deployment, std::nan("")).ok());
  deployment.context = 0;
  EXPECT_FALSE(decode_step(deployment, 1).ok());
  deployment.context = 1e7;  // longer than the model's 202,752
  EXPECT_FALSE(decode_step(deployment, 1).ok());
  deployment.context = 4096;
  deployment.bandwidth_efficiency = 1.5;
  EXPECT_FALSE(decode_step(deployment, 1).ok());
}

}  // namespace
}  // namespace nibble
