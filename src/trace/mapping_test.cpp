#include "trace/mapping.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::trace {
namespace {

const Mapping& built_in() {
  static const Mapping mapping = [] {
    Result<Mapping> loaded = Mapping::load({});
    NIBBLE_CHECK(loaded.ok());
    return *loaded;
  }();
  return mapping;
}

std::string op_of(std::string_view name) {
  const KernelRule* rule = built_in().kernel(name);
  return rule == nullptr ? std::string(kUnmapped) : rule->op;
}

// An example that an earlier rule catches would mean that its own rule is never reached.
TEST(Mapping, EachRuleKnowsItsOwnExample) {
  ASSERT_GE(built_in().rules().size(), 40U);
  for (const KernelRule& rule : built_in().rules()) {
    ASSERT_FALSE(rule.example.empty());
    EXPECT_EQ(built_in().kernel(rule.example), &rule) << rule.example;
  }
}

// Names from published profiles of vLLM, SGLang and TensorRT-LLM, and what those say they are.
TEST(Mapping, KnowsKernelsOfPublishedProfiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"nvjet_tst_512x8_64x3_2x1_v_bz_TNT", "gemm"},
      {"nvjet_tst_64x24_64x16_4x1_v_bz_splitK_bias_TNT", "gemm"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
       "segment_k_off_kernel__5x_cublas",
       "gemm"},
      {"void "
       "cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8>(T1::Params)",
       "gemm"},
      {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "gemm"},
      {"bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et128x8_m128x8x16", "moe.down"},
      {"bmm_E2m1_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x8x512u2_s5_et128x8_m128x8x64_cga1x1x1_16dp256b_"
       "rM_"
       "TN_transOut_schedS_biasM_bN_ldgsts_tmaOpt_clmp_swiGlu_dynBatch_sm100f",
       "moe.gate_up"},
      {"fmhaSm100aKernel_QE4m3KvE2m1OE4m3H128PagedKvDenseP16VarSeqQ8Kv128PersistentSwapsAbForGen",
       "attn.core"},
      {"void moe::dev::routing::routingCustom::routingIndicesClusterKernel", "moe.routing"},
      {"void moe::dev::routing::routingDeepSeek::routingIndicesBlockKernel<...>", "moe.routing"},
      {"void vllm::reshape_and_cache_nvfp4_kernel", "kv_write"},
      {"triton_red_fused_fused_add_rms_norm_moe_forward_0", "norm"},
      {"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*)",
       "norm"},
      {"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", "norm"},
      {"void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(sglang::RankData*)",
       "all_reduce"},
      {"void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<(unsigned char)2, "
       "__nv_bfloat16, true>(flashinfer::trtllm_mnnvl_allreduce::AllReduceFusionParams)",
       "all_reduce"},
      {"void (anonymous namespace)::all_reduce_two_shot_kernel<__nv_bfloat16, 4>", "all_reduce"},
      {"void moeTopK<256>(float const*, bool const*, float*, int*, int, int)", "moe.routing"},
      {"void count_and_sort_expert_tokens_kernel<int>", "moe.routing"},
      {"void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16>",
       "moe.routing"},
      {"void moe::dev::finalize::finalizeKernelVecLoad<KernelParams>", "moe.routing"},
      {"void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>", "activation"},
      {"void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_fp4_e2m1>",
       "activation"},
      {"triton_poi_fused_mul_silu_2", "activation"},
      {"void per_token_group_quant_8bit_kernel<__nv_bfloat16, __nv_fp8_e4m3>", "quantize"},
      {"void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>>>",
       "attn.core"},
      {"_fwd_grouped_kernel_stage1", "attn.core"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy_alignedK_contig<...>",
       "elementwise"},
      {"void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>",
       "elementwise"},
      {"void flashinfer::sampling::OnlineSoftmaxMapKernel", "sampling"},
      {"Memset (Device)", "copy"},
      {"some_unknown_kernel_xyz", "unmapped"},
      {"", "unmapped"},
  };
  for (const auto& [name, op] : cases) EXPECT_EQ(op_of(name), op) << name;
}

TEST(Mapping, TellsDecodeStepsByTheirAnnotations) {
  const std::tuple<const char*, const char*, StepKind> cases[] = {
      {"execute_context_0(0)_generation_32(32)", "execute_context", StepKind::kDecode},
      {"execute_context_2(512)_generation_32(32)", "execute_context", StepKind::kPrefill},
      {"execute_context_1(7)_generation_0(0)", "execute_context", StepKind::kPrefill},
      {"execute_context_0(0)_generation_0(0)", "execute_context", StepKind::kPrefill},
      {"execute_context_0_generation_64", "execute_context", StepKind::kDecode},
      {"execute_77_context_0(sq0sk0)_generation_2(sq1sk300)", "execute_context", StepKind::kDecode},
      {"execute_77_context_3(sq128sk256)_generation_2(sq1sk300)", "execute_context",
       StepKind::kPrefill},
      {"execute_new_0_cached_8", "execute_new", StepKind::kDecode},
      {"execute_new_1_cached_8", "execute_new", StepKind::kPrefill},
      {"step[DECODE bs=64]", "step[...]", StepKind::kDecode},
      {"step[EXTEND bs=8 toks=4096]", "step[...]", StepKind::kPrefill},
      {"step[MIXED bs=2]", "step[...]", StepKind::kPrefill},
      {"[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 16 gen reqs", "_forward_step",
       StepKind::kDecode},
      {"[Executor] _forward_step 3: 2 ctx reqs, 900 ctx tokens, 16 gen reqs", "_forward_step",
       StepKind::kPrefill},
      {"execute_model", "execute_model", StepKind::kAny},
      {"ProfilerStep#12", "ProfilerStep", StepKind::kAny},
  };
  for (const auto& [name, family, kind] : cases) {
    const StepMatch match = built_in().step(name);
    ASSERT_GE(match.family, 0) << name;
    EXPECT_EQ(built_in().families()[static_cast<std::size_t>(match.family)].name, family) << name;
    EXPECT_EQ(match.kind, kind) << name;
  }
  EXPECT_LT(built_in().step("scheduler.process_batch_result_decode").family, 0);
}

TEST(Mapping, SaysWhichOperationsARowCovers) {
  EXPECT_EQ(built_in().covers("experts"), (std::vector<std::string>{"moe.gate_up", "moe.down"}));
  EXPECT_EQ(built_in().covers("attn.core"), std::vector<std::string>{"attn.core"});
  EXPECT_TRUE(built_in().covers("quantize").empty());
  EXPECT_TRUE(built_in().covers("unmapped").empty());
}

std::string fault_of(const std::string& text) {
  const TemporaryFolder folder;
  NIBBLE_CHECK(write_file(folder.path() / "ops.json", text).ok());
  const Result<Mapping> mapping = Mapping::load(folder.path() / "ops.json");
  return mapping.ok() ? "" : mapping.error().message;
}

TEST(Mapping, ReadsAFileOfTheUser) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "ops.json", R"({"schema": "nibble.trace_ops/1",
    "rules": [{"pattern": "^mine", "op": "moe.down"}]})")
                  .ok());
  const Result<Mapping> mapping = Mapping::load(folder.path() / "ops.json");
  ASSERT_TRUE(mapping.ok());
  ASSERT_NE(mapping->kernel("mine_1"), nullptr);
  EXPECT_EQ(mapping->kernel("mine_1")->op, "moe.down");
  EXPECT_EQ(mapping->kernel("not mine"), nullptr);
}

TEST(Mapping, SaysWhatIsWrongWithAFile) {
  const std::string head = R"({"schema": "nibble.trace_ops/1", "rules": [)";
  EXPECT_NE(fault_of(head + R"({"pattern": "a(", "op": "x"}]})").find("rules[0]"),
            std::string::npos);
  EXPECT_NE(fault_of(head + R"({"pattern": "a(", "op": "x"}]})").find("\"a(\" is wrong"),
            std::string::npos);
  EXPECT_NE(fault_of(head + R"({"pattern": "a"}]})").find("op"), std::string::npos);
  EXPECT_NE(fault_of(head + R"({"pattern": "a", "op": "x", "then": "y"}]})").find("otherwise"),
            std::string::npos);
  EXPECT_NE(fault_of(head + R"({"pattern": "a", "op": "x", "opp": 1}]})").find("opp"),
            std::string::npos);
  EXPECT_NE(fault_of(head + "]}").find("at least one rule"), std::string::npos);
  EXPECT_NE(fault_of(R"({"schema": "other/1", "rules": []})").find("schema"), std::string::npos);
  EXPECT_NE(fault_of("[1]").find("must be an object"), std::string::npos);
  EXPECT_FALSE(Mapping::load("/nowhere/ops.json").ok());
}

}  // namespace
}  // namespace nibble::trace
