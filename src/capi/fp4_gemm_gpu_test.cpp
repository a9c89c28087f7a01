// The FP4 GEMM of a GPU through the C API, against double precision.
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "capi/test_capi_gpu.h"
#include "capi/test_gemm.h"

namespace nibble::capi {
namespace {

// A product's operands in memory of the GPU, and a plan for it.
struct OnGpu {
  const GroupedFp4& product;
  GpuArray<std::uint8_t> a{product.a.codes};
  GpuArray<std::uint8_t> b{product.b_codes};
  GpuArray<std::uint8_t> a_scales{product.a_scales};
  GpuArray<std::uint8_t> b_scales{product.b_scales};
  GpuArray<float> alpha{product.alpha};
  GpuArray<std::int32_t> offsets{product.offsets};
  GpuArray<std::int32_t> sf_offsets{product.sf_offsets};
  nibble_fp4_gemm* plan = nullptr;
  std::unique_ptr<GpuArray<std::uint8_t>> workspace;
  std::unique_ptr<GpuArray<std::uint32_t>> out;  // of fp32; more than enough for the others

  OnGpu(const GroupedFp4& given, nibble_device* device, std::int32_t out_dtype,
        std::int64_t expected_rows)
      : product(given) {
    auto desc = sized<nibble_fp4_gemm_desc>();
    desc.format = given.what.mxfp4 ? NIBBLE_MXFP4 : NIBBLE_NVFP4;
    desc.out_dtype = out_dtype;
    desc.experts = static_cast<std::int32_t>(given.what.counts.size());
    desc.n = given.what.n;
    desc.k = given.what.k;
    desc.expected_rows = expected_rows;
    EXPECT_CALL_OK(nibble_fp4_gemm_create(device, &desc, &plan));
    std::size_t bytes = 0;
    EXPECT_CALL_OK(nibble_fp4_gemm_workspace_bytes(plan, &bytes));
    workspace = std::make_unique<GpuArray<std::uint8_t>>(GpuArray<std::uint8_t>::poisoned(bytes));
    out = std::make_unique<GpuArray<std::uint32_t>>(
        GpuArray<std::uint32_t>::poisoned(static_cast<std::size_t>(given.rows() * given.what.n)));
  }
  ~OnGpu() { nibble_fp4_gemm_destroy(plan); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  nibble_fp4_gemm_args args() const {
    auto made = sized<nibble_fp4_gemm_args>();
    made.rows = product.rows();
    made.a = a.data();
    made.b = b.data();
    made.block_scale_a = a_scales.data();
    made.block_scale_b = b_scales.data();
    made.alpha = alpha.data();
    made.out = out->data();
    if (product.what.counts.size() > 1) {
      made.expert_offsets = offsets.data();
      made.sf_offsets = sf_offsets.data();
    }
    made.workspace = workspace->data();
    made.workspace_bytes = workspace->read().size();
    return made;
  }
};

std::vector<float> as_floats(const std::vector<std::uint32_t>& words, std::size_t count,
                             std::int32_t dtype) {
  std::vector<float> values(count);
  for (std::size_t at = 0; at < count; ++at) {
    if (dtype == NIBBLE_FP32) {
      std::memcpy(&values[at], &words[at], sizeof(float));
    } else {
      const std::uint32_t word = words[at / 2];
      values[at] = from_upper_half(static_cast<std::uint16_t>(at % 2 == 0 ? word : word >> 16));
    }
  }
  return values;
}

// Rounding of fp32 sums, of the instruction's among them: 2^-12 of all magnitudes; of bf16 2^-8.
void expect_right(const OnGpu& run, std::int32_t dtype) {
  const GroupedFp4& product = run.product;
  const auto count = static_cast<std::size_t>(product.rows() * product.what.n);
  const std::vector<float> out = as_floats(run.out->read(), count, dtype);
  for (std::int64_t row = 0; row < product.rows(); ++row) {
    for (std::int64_t column = 0; column < product.what.n; ++column) {
      const double expected = product.expected(row, column);
      const double bound = 0x1p-12 * product.magnitude(row, column) +
                           (dtype == NIBBLE_BF16 ? std::abs(expected) * 0x1p-8 : 0);
      ASSERT_NEAR(out[static_cast<std::size_t>(row * product.what.n + column)], expected, bound)
          << row << ", " << column;
    }
  }
}

class CudaCapiFp4Gemm : public CapiGpuTest {
 protected:
  void expect_product(const GroupedCase& what, std::uint8_t padding, std::int32_t dtype,
                      std::int64_t expected_rows) {
    const GroupedFp4 product(what, padding);
    const OnGpu run(product, device(), dtype, expected_rows);
    const auto args = run.args();
    ASSERT_CALL_OK(nibble_fp4_gemm_run(run.plan, &args, stream().handle()));
    check_ok(stream().synchronize());
    expect_right(run, dtype);
  }
};

TEST_F(CudaCapiFp4Gemm, Dense) {
  for (const std::int64_t expected_rows : {1, 16, 64, 128, 1000}) {
    SCOPED_TRACE(expected_rows);
    expect_product({.counts = {33}, .n = 136, .k = 208}, 0x7f, NIBBLE_BF16, expected_rows);
    expect_product({.counts = {150}, .n = 37, .k = 336}, 0xff, NIBBLE_FP32, expected_rows);
  }
}

TEST_F(CudaCapiFp4Gemm, Grouped) {
  const GroupedCase ragged{.counts = {5, 130, 1, 0, 127, 129}, .n = 72, .k = 144};
  for (const std::uint8_t padding : {std::uint8_t{0x7f}, std::uint8_t{0xff}}) {
    expect_product(ragged, padding, NIBBLE_BF16, 8);
    expect_product(ragged, padding, NIBBLE_FP32, 200);
  }
  expect_product({.counts = {9, 0, 40}, .n = 64, .k = 160, .mxfp4 = true}, 0xff, NIBBLE_FP32, 16);
  expect_product({.counts = {0, 0, 1}, .n = 16, .k = 32}, 0x7f, NIBBLE_BF16, 1);
}

TEST_F(CudaCapiFp4Gemm, CapturedAndOnTheDefaultStream) {
  const GroupedFp4 product({.counts = {12, 20}, .n = 80, .k = 256}, 0x7f);
  const OnGpu run(product, device(), NIBBLE_FP32, 16);
  const auto args = run.args();
  cuda::Graph graph = value_of(stream().capture([&]() -> Result<> {
    if (nibble_fp4_gemm_run(run.plan, &args, stream().handle()) == NIBBLE_OK) return {};
    return run_error("{}", nibble_last_error());
  }));
  for (int replay = 0; replay < 3; ++replay) check_ok(graph.launch(stream()));
  check_ok(stream().synchronize());
  expect_right(run, NIBBLE_FP32);
  run.out->write(std::vector<std::uint32_t>(32 * 80, 0xffffffffU));
  ASSERT_CALL_OK(nibble_fp4_gemm_run(run.plan, &args, nullptr));
  check_ok(gpu().synchronize());
  expect_right(run, NIBBLE_FP32);
}

TEST_F(CudaCapiFp4Gemm, WithoutAlphaItIsOne) {
  GroupedFp4 product({.counts = {7}, .n = 24, .k = 64}, 0xff);
  product.alpha = {1};
  const OnGpu run(product, device(), NIBBLE_FP32, 1);
  auto args = run.args();
  args.alpha = nullptr;
  ASSERT_CALL_OK(nibble_fp4_gemm_run(run.plan, &args, stream().handle()));
  check_ok(stream().synchronize());
  expect_right(run, NIBBLE_FP32);
}

TEST_F(CudaCapiFp4Gemm, SeveralThreadsRunOnePlan) {
  const GroupedFp4 product({.counts = {40}, .n = 64, .k = 128}, 0x7f);
  const OnGpu first(product, device(), NIBBLE_FP32, 40);
  const OnGpu second(product, device(), NIBBLE_FP32, 40);  // for its memory
  const auto work = [&](const OnGpu& memory) {
    check_ok(gpu().make_current());
    cuda::Stream own = value_of(cuda::Stream::make());
    const auto args = memory.args();
    for (int run = 0; run < 20; ++run) {
      EXPECT_CALL_OK(nibble_fp4_gemm_run(first.plan, &args, own.handle()));
    }
    check_ok(own.synchronize());
  };
  std::thread other([&] { work(second); });
  work(first);
  other.join();
  expect_right(first, NIBBLE_FP32);
  expect_right(second, NIBBLE_FP32);
}

TEST_F(CudaCapiFp4Gemm, SaysWhatRuns) {
  const GroupedFp4 product({.counts = {1}, .n = 32, .k = 64}, 0);
  const OnGpu run(product, device(), NIBBLE_BF16, 1);
  auto info = sized<nibble_fp4_gemm_info>();
  ASSERT_CALL_OK(nibble_fp4_gemm_describe(run.plan, &info));
  EXPECT_EQ(info.software_mma != 0, gpu().info().major != 12);
  EXPECT_STREQ(info.problem, "1 x [32, 64] nvfp4 x nvfp4 -> bf16");
  EXPECT_EQ(std::string(info.tactic).rfind("w4a4 ", 0), 0U);
  EXPECT_GT(info.grid, 0);
  EXPECT_GT(info.shared_bytes, 0);
}

TEST_F(CudaCapiFp4Gemm, WhatIsRefused) {
  auto desc = sized<nibble_fp4_gemm_desc>();
  desc.n = 16;
  desc.k = 24;
  nibble_fp4_gemm* plan = nullptr;
  EXPECT_EQ(nibble_fp4_gemm_create(device(), &desc, &plan), NIBBLE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(nibble_last_error()).find("24 columns are not whole blocks of 16"),
            std::string::npos);
  EXPECT_EQ(plan, nullptr);

  const GroupedFp4 product({.counts = {1, 3}, .n = 32, .k = 64}, 0);
  const OnGpu run(product, device(), NIBBLE_BF16, 1);
  const auto refusal = [&](const nibble_fp4_gemm_args& wrong) {
    EXPECT_EQ(nibble_fp4_gemm_run(run.plan, &wrong, stream().handle()), NIBBLE_INVALID_ARGUMENT);
    return std::string(nibble_last_error());
  };
  const auto args = run.args();
  auto wrong = args;
  wrong.a = static_cast<const std::uint8_t*>(args.a) + 8;
  EXPECT_NE(refusal(wrong).find(", which is no multiple of 16 bytes"), std::string::npos);
  wrong = args;
  wrong.block_scale_b = nullptr;
  EXPECT_EQ(refusal(wrong), "block_scale_b is null");
  wrong = args;
  wrong.expert_offsets = nullptr;
  EXPECT_EQ(refusal(wrong), "expert_offsets is null, and the plan has 2 experts");
  wrong = args;
  wrong.rows = -4;
  EXPECT_EQ(refusal(wrong), "rows is -4; give 0 to 2147483647");
  wrong = args;
  wrong.workspace_bytes -= 1;
  EXPECT_EQ(refusal(wrong), "the workspace has " + std::to_string(args.workspace_bytes - 1) +
                                " bytes; this plan needs " + std::to_string(args.workspace_bytes));
  wrong = args;
  wrong.size = 0;
  EXPECT_NE(refusal(wrong).find("args->size is 0"), std::string::npos);
}

TEST_F(CudaCapiFp4Gemm, TheCurrentContextStays) {
  const cuda::Driver* driver = value_of(cuda::Driver::get());
  std::thread([&] {
    cuda::abi::Context context = nullptr;
    nibble_device* another = nullptr;
    ASSERT_CALL_OK(nibble_device_open(0, &another));
    void* memory = nullptr;
    ASSERT_CALL_OK(nibble_device_allocate(another, 64, &memory));
    const std::vector<std::uint8_t> bytes = {1, 2, 3};
    std::vector<std::uint8_t> back(3);
    ASSERT_CALL_OK(nibble_device_upload(another, memory, bytes.data(), 3));
    ASSERT_CALL_OK(nibble_device_download(another, back.data(), memory, 3));
    EXPECT_EQ(back, bytes);
    ASSERT_CALL_OK(nibble_device_release(another, memory));
    nibble_device_close(another);
    EXPECT_EQ(driver->CtxGetCurrent(&context), cuda::abi::kSuccess);
    EXPECT_EQ(context, nullptr);
  }).join();
  auto info = sized<nibble_device_info>();
  ASSERT_CALL_OK(nibble_device_describe(device(), &info));
  EXPECT_EQ(info.is_gpu, 1);
  EXPECT_EQ(std::string(info.name), gpu().info().name);
  EXPECT_EQ(std::string(info.arch), gpu().info().arch());
  EXPECT_EQ(info.fp4_mma != 0, gpu().info().major == 12);
}

}  // namespace
}  // namespace nibble::capi
