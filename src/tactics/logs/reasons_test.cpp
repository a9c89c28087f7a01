#include "tactics/logs/reasons.h"

#include <gtest/gtest.h>

namespace nibble::logs {
namespace {

TEST(Reasons, SharedMemoryOfTritonHasBothNumbers) {
  // sgl-project/sglang issue 28019.
  const Reason reason = classify(
      "out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block "
      "sizes or `num_stages` may help.");
  EXPECT_EQ(reason.kind, ReasonClass::kSharedMemory);
  EXPECT_EQ(reason.wanted_bytes, 147456);
  EXPECT_EQ(reason.limit_bytes, 101376);
}

TEST(Reasons, SharedMemoryOfTensorRtLlmsGuard) {
  // NVIDIA/cutlass issue 3144.
  const Reason reason = classify(
      "MoE grouped GEMM requires 102400 bytes shared memory but device supports 101376 "
      "(cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu:39)");
  EXPECT_EQ(reason.kind, ReasonClass::kSharedMemory);
  EXPECT_EQ(reason.wanted_bytes, 102400);
  EXPECT_EQ(reason.limit_bytes, 101376);
  EXPECT_TRUE(reason.fp4);
}

TEST(Reasons, SharedMemoryOfCuteDsl) {
  // local-inference-lab/b12x issue 5.
  const Reason reason = classify("Allocated: 118784 bytes. Max: 101376 bytes.");
  EXPECT_EQ(reason.kind, ReasonClass::kSharedMemory);
  EXPECT_EQ(reason.wanted_bytes, 118784);
  EXPECT_EQ(reason.limit_bytes, 101376);
}

TEST(Reasons, SharedMemoryWithoutNumbers) {
  // flashinfer-ai/flashinfer issue 3031.
  const Reason reason = classify(
      "[TensorRT-LLM][ERROR] Assertion failed: GPU lacks the shared memory resources to run "
      "GroupedGEMM kernel");
  EXPECT_EQ(reason.kind, ReasonClass::kSharedMemory);
  EXPECT_FALSE(reason.wanted_bytes.has_value());
}

TEST(Reasons, OfOneNumberAloneNothingIsMade) {
  const Reason reason = classify("kernel requires 102400 bytes shared memory");
  EXPECT_NE(reason.kind, ReasonClass::kSharedMemory);
  EXPECT_FALSE(reason.wanted_bytes.has_value());
}

TEST(Reasons, EachClassByATextOfIts) {
  struct Case {
    const char* text;
    ReasonClass kind;
  };
  const Case cases[] = {
      // flashinfer issue 2077
      {"Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. Error: Error Internal",
       ReasonClass::kNotInitialised},
      // flashinfer issue 4049: 715 is cudaErrorIllegalInstruction
      {"Error: Failed to initialize the TMA descriptor 715", ReasonClass::kFault},
      {"Error: Failed to initialize the TMA descriptor 1", ReasonClass::kNotInitialised},
      {"CUDA error: an illegal memory access was encountered", ReasonClass::kFault},
      {"CUDA error: misaligned address", ReasonClass::kFault},
      // flashinfer issue 3134
      {"Unsupported tile (64, 64, 64) and cluster (1, 2, 1) shape combination for arch 100.",
       ReasonClass::kNoKernel},
      {"CUDA error: no kernel image is available for execution on the device",
       ReasonClass::kNoKernel},
      {"K must be divisible by 32", ReasonClass::kAlignment},
      {"[Autotuner]: OOM detected, falling back to default tactic", ReasonClass::kMemory},
      {"CUDA out of memory. Tried to allocate 2 GiB", ReasonClass::kMemory},
      {"watchdog timeout", ReasonClass::kTimeout},
      {"Got CUDA error. See above for details.", ReasonClass::kUnknown},
      {"", ReasonClass::kUnknown},
  };
  for (const Case& one : cases) EXPECT_EQ(classify(one.text).kind, one.kind) << one.text;
}

TEST(Reasons, TilesAsTheTextsWriteThem) {
  EXPECT_EQ(classify("CtaShape128x256x64B").tile,
            (Tile{.m = 128, .n = 256, .k = 64, .k_in_bytes = true}));
  EXPECT_EQ(classify("\t tile shape ID: 64x64x128").tile,
            (Tile{.m = 64, .n = 64, .k = 128, .k_in_bytes = true}));
  EXPECT_EQ(classify("Unsupported tile (128, 32, 64) and cluster (1, 1, 1)").tile,
            (Tile{.m = 128, .n = 32, .k = 64, .k_in_bytes = false}));
  EXPECT_FALSE(classify("tile shape ID: 64x64").tile.has_value());
  EXPECT_FALSE(classify("tile shape ID: 0x64x128").tile.has_value());
}

TEST(Reasons, AByteIsTwoFp4Values) {
  EXPECT_EQ(fp4_name(Tile{.m = 128, .n = 256, .k = 64, .k_in_bytes = true}), "128x256x128");
  EXPECT_EQ(fp4_name(Tile{.m = 128, .n = 256, .k = 64}), "128x256x64");
}

TEST(Reasons, TextsStayOnOneLineAndAreShortened) {
  const Reason reason = classify("a\nb\x1b[31m" + std::string(1000, 'x'));
  EXPECT_EQ(reason.text.find('\n'), std::string::npos);
  EXPECT_EQ(reason.text.find('\x1b'), std::string::npos);
  EXPECT_LE(reason.text.size(), 240u);
}

}  // namespace
}  // namespace nibble::logs
