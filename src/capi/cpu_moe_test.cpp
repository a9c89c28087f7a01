// A layer of experts on the CPU through the C API, against double precision.
#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "capi/test_moe.h"

namespace nibble::capi {
namespace {

class CapiCpuMoe : public testing::Test {
 protected:
  void SetUp() override { ASSERT_CALL_OK(nibble_cpu_open(2, &device_)); }
  void TearDown() override { nibble_device_close(device_); }

  nibble_moe_args args_of(const MoeInput& input, std::vector<float>& out) {
    out.assign(input.x.size(), NAN);
    auto args = sized<nibble_moe_args>();
    args.tokens = input.shape.tokens;
    args.hidden_states = input.x.data();
    args.topk_ids = input.ids.data();
    args.topk_weights = input.weights.data();
    args.shared = input.shared.data();
    args.out = out.data();
    return args;
  }

  void make(const MoeInput& input, std::int32_t dtype) {
    const auto desc = input.desc(dtype);
    const auto tensors = input.tensors();
    ASSERT_CALL_OK(nibble_moe_create(device_, &desc, &tensors, &moe_));
    ASSERT_CALL_OK(nibble_moe_workspace_create(moe_, input.shape.tokens, &workspace_));
  }
  void drop() {
    nibble_moe_workspace_destroy(workspace_);
    nibble_moe_destroy(moe_);
    workspace_ = nullptr;
    moe_ = nullptr;
  }

  // fp32 keeps 2^-15 of the largest of 64 neighbours, which is 2^-13 of their mean or less.
  void expect_right(const MoeInputShape& shape, double limit = 0x1p-12) {
    const MoeInput input(shape);
    make(input, NIBBLE_FP32);
    std::vector<float> out;
    const auto args = args_of(input, out);
    ASSERT_CALL_OK(nibble_moe_run(moe_, workspace_, &args, nullptr));
    input.expect_near(out, limit);
    drop();
  }

  nibble_device* device_ = nullptr;
  nibble_moe* moe_ = nullptr;
  nibble_moe_workspace* workspace_ = nullptr;
};

constexpr MoeInputShape kSmall{
    .tokens = 5, .experts = 6, .top_k = 2, .hidden = 96, .intermediate = 48};

MoeInputShape with(MoeInputShape shape, std::int32_t row_order, std::int32_t scale_layout) {
  shape.row_order = row_order;
  shape.scale_layout = scale_layout;
  return shape;
}

TEST_F(CapiCpuMoe, EveryOrderOfRowsAndScales) {
  for (const std::int32_t order : {NIBBLE_GATE_UP, NIBBLE_UP_GATE, NIBBLE_INTERLEAVED}) {
    for (const std::int32_t layout : {NIBBLE_SCALES_ROW_MAJOR, NIBBLE_SCALES_128X4}) {
      SCOPED_TRACE(std::to_string(order) + ", " + std::to_string(layout));
      expect_right(with(kSmall, order, layout));
    }
  }
}

TEST_F(CapiCpuMoe, GptOss) {
  expect_right({.tokens = 3,
                .experts = 4,
                .top_k = 4,
                .hidden = 64,
                .intermediate = 96,
                .mxfp4 = true,
                .clamped = true,
                .biases = true,
                .row_order = NIBBLE_INTERLEAVED});
}

// Blackwell's arithmetic. Of the values between the products, those that lie within their rounding
// of the middle of two codes become either: a few of a thousand.
TEST_F(CapiCpuMoe, OperandsInFp4) {
  MoeInputShape shape = kSmall;
  shape.fp4_operand = true;
  expect_right(shape, 0x1p-6);
  shape.static_scales = true;
  expect_right(shape, 0x1p-6);
}

TEST_F(CapiCpuMoe, RowsOfBf16) {
  const MoeInput input(kSmall);
  make(input, NIBBLE_BF16);
  std::vector<float> unused;
  auto args = args_of(input, unused);
  std::vector<std::uint16_t> x;
  std::vector<std::uint16_t> shared;
  std::vector<std::uint16_t> out(input.x.size(), 0xffff);
  for (const float value : input.x) x.push_back(upper_half(value));
  for (const float value : input.shared) shared.push_back(upper_half(value));
  args.hidden_states = x.data();
  args.shared = shared.data();
  args.out = out.data();
  ASSERT_CALL_OK(nibble_moe_run(moe_, workspace_, &args, nullptr));
  std::vector<float> y;
  for (const std::uint16_t half : out) y.push_back(from_upper_half(half));
  input.expect_near(y, 0x1p-7);  // activations and output in bf16
  auto info = sized<nibble_moe_info>();
  ASSERT_CALL_OK(nibble_moe_describe(moe_, &info));
  EXPECT_EQ(info.is_gpu, 0);
  EXPECT_NE(std::string(info.layer).find("6 experts top-2 96 -> 2 x 48 swiglu"), std::string::npos);
  EXPECT_STREQ(info.tactics, "");
  drop();
}

TEST_F(CapiCpuMoe, WhatCreateRefuses) {
  const MoeInput input(kSmall);
  const auto refusal = [&](const nibble_moe_desc& desc, const nibble_moe_weights& weights) {
    EXPECT_EQ(nibble_moe_create(device_, &desc, &weights, &moe_), NIBBLE_INVALID_ARGUMENT);
    EXPECT_EQ(moe_, nullptr);
    return std::string(nibble_last_error());
  };
  const auto desc = input.desc(NIBBLE_FP32);
  const auto weights = input.tensors();
  auto wrong = desc;
  wrong.top_k = 7;
  EXPECT_EQ(refusal(wrong, weights), "top_k is 7; give 1 to 6");
  wrong = desc;
  wrong.hidden = 0;
  EXPECT_EQ(refusal(wrong, weights), "hidden is 0; give 2 to 16777216");
  wrong = desc;
  wrong.intermediate = 47;
  EXPECT_NE(refusal(wrong, weights).find("w2 is of 96 x 47; give "), std::string::npos);
  wrong = desc;
  wrong.activation = 2;
  EXPECT_EQ(refusal(wrong, weights), "activation is 2; give 0 to 1");
  auto missing = weights;
  missing.on_device = 1;
  EXPECT_EQ(refusal(desc, missing),
            "weights->on_device is 1, and the layer is to run on the CPU; give 0");
  missing = weights;
  missing.w2 = nullptr;
  EXPECT_EQ(refusal(desc, missing), "w2 is null");
  missing = weights;
  missing.row_order = 3;
  EXPECT_EQ(refusal(desc, missing), "row_order is 3; give 0 to 2");
  auto factors = input.w2_factor;
  factors[4] = NAN;
  missing = weights;
  missing.w2_factor = factors.data();
  EXPECT_EQ(refusal(desc, missing), "w2_factor of expert 4 is nan; give a finite number");
  auto both = input.w13_factor;
  both[3] = INFINITY;
  missing = weights;
  missing.w13_factor = both.data();
  EXPECT_EQ(refusal(desc, missing),
            "w13_factor of expert 1, up rows, is inf; give a finite number");
  missing = weights;
  missing.w13_scale = nullptr;
  EXPECT_EQ(refusal(desc, missing), "w13_scale is null");
  std::vector<float> bias(static_cast<std::size_t>(kSmall.experts * kSmall.hidden));
  bias[2 * static_cast<std::size_t>(kSmall.hidden) + 7] = NAN;
  missing = weights;
  missing.w2_bias = bias.data();
  EXPECT_EQ(refusal(desc, missing), "w2_bias of expert 2, row 7 is nan; give a finite number");
  wrong = desc;
  wrong.operand = 2;
  EXPECT_EQ(refusal(wrong, weights), "operand is 2; give 0 to 1");
  wrong.operand = NIBBLE_OPERAND_FP4;
  wrong.format = NIBBLE_MXFP4;
  EXPECT_EQ(refusal(wrong, weights),
            "operands in mxfp4 need a GPU; the CPU takes nvfp4, or 16 bits");
  missing = weights;
  missing.w13_input_scale = input.w13_input_scale.data();
  EXPECT_EQ(refusal(desc, missing),
            "input scales are given, and the layer's operand is not FP4 in nvfp4");
  wrong.format = NIBBLE_NVFP4;
  EXPECT_EQ(refusal(wrong, missing), "w2_input_scale is null; give both input scales, or neither");
  auto divisors = input.w2_input_scale;
  divisors[2] = 448;
  missing.w2_input_scale = divisors.data();
  EXPECT_EQ(
      refusal(wrong, missing),
      "w2_input_scale of expert 2 is 448, which is above 100, as a divisor that is taken for a "
      "multiplier would be");
  EXPECT_EQ(nibble_moe_create(nullptr, &desc, &weights, &moe_), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_moe_create(device_, nullptr, &weights, &moe_), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_moe_create(device_, &desc, &weights, nullptr), NIBBLE_INVALID_ARGUMENT);
}

TEST_F(CapiCpuMoe, WhatRunRefuses) {
  MoeInput input(kSmall);
  make(input, NIBBLE_FP32);
  std::vector<float> out;
  const auto args = args_of(input, out);
  const auto refusal = [&](const nibble_moe_args& wrong, void* stream = nullptr) {
    EXPECT_EQ(nibble_moe_run(moe_, workspace_, &wrong, stream), NIBBLE_INVALID_ARGUMENT);
    return std::string(nibble_last_error());
  };
  auto wrong = args;
  wrong.tokens = 6;
  EXPECT_EQ(refusal(wrong), "tokens is 6; the workspace holds 0 to 5");
  wrong = args;
  wrong.reserved = 1;
  EXPECT_EQ(refusal(wrong), "args->reserved is 1; set it to 0");
  wrong = args;
  wrong.topk_ids = nullptr;
  EXPECT_EQ(refusal(wrong), "topk_ids is null");
  wrong = args;
  wrong.out = const_cast<float*>(input.x.data());
  EXPECT_EQ(refusal(wrong), "out is hidden_states; give two buffers");
  EXPECT_EQ(refusal(args, &wrong), "stream is not null, and the layer runs on the CPU");
  input.ids[3] = 6;
  EXPECT_NE(refusal(args).find("6"), std::string::npos);
  EXPECT_EQ(nibble_moe_run(nullptr, workspace_, &args, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_moe_run(moe_, nullptr, &args, nullptr), NIBBLE_INVALID_ARGUMENT);
  std::int64_t dropped = -1;
  EXPECT_CALL_OK(nibble_moe_dropped_choices(workspace_, &dropped));
  EXPECT_EQ(dropped, 0);
  drop();
}

// As of the GEMM (cpu_range_test.cpp), and what lies between the products.
TEST_F(CapiCpuMoe, WhatTheKernelsDoNotHoldIsRefused) {
  MoeInput input(kSmall);
  make(input, NIBBLE_FP32);
  std::vector<float> out;
  const auto refusal = [&](nibble_status status) {
    const auto args = args_of(input, out);
    EXPECT_EQ(nibble_moe_run(moe_, workspace_, &args, nullptr), status);
    EXPECT_TRUE(std::isnan(out.front())) << "written, and refused";
    return std::string(nibble_last_error());
  };
  const std::vector<float> x = input.x;
  input.x[100] = INFINITY;
  EXPECT_EQ(refusal(NIBBLE_INVALID_ARGUMENT),
            "hidden_states[1, 4] is inf; the CPU multiplies finite numbers");
  input.x[100] = -0x1p100F;
  EXPECT_EQ(refusal(NIBBLE_INVALID_ARGUMENT),
            "hidden_states[1, 4] is -1.2676506e+30; the CPU takes magnitudes to 2^85 "
            "(3.8685626e+25)");
  input.x = x;
  std::fill_n(input.x.begin(), 64, 0x1p-120F);
  EXPECT_NE(refusal(NIBBLE_INVALID_ARGUMENT).find("hidden_states[0, 0] is 7.52"),
            std::string::npos);
  // silu(gate) * up of 2^60 and 2^60 and more is beyond 2^85, and of 2^-60 below 2^-100.
  for (const float scale : {0x1p60F, 0x1p-60F}) {
    input.x = x;
    for (float& value : input.x) value *= scale;
    const std::string said = refusal(NIBBLE_RUN_FAILED);
    EXPECT_EQ(said.rfind("the activation of token ", 0), 0U) << said;
    EXPECT_NE(said.find(scale > 1 ? "takes magnitudes to 2^85" : "a largest of 2^-100"),
              std::string::npos)
        << said;
  }
  input.x = x;
  input.weights[3] = NAN;
  EXPECT_EQ(refusal(NIBBLE_INVALID_ARGUMENT), "topk_weights[1, 1] is nan; give finite numbers");
  std::fill(input.weights.begin(), input.weights.end(), 3e38F);
  for (float& value : input.x) value *= 8;
  EXPECT_EQ(refusal(NIBBLE_RUN_FAILED).rfind("out[", 0), 0U);
  EXPECT_NE(std::string(nibble_last_error()).find("sums of the layer leave fp32"),
            std::string::npos);
  input.shared[1] = NAN;
  EXPECT_EQ(refusal(NIBBLE_INVALID_ARGUMENT), "shared[0, 1] is nan; give finite numbers");
  drop();
  const auto create = [&](const MoeInput& wrong) {
    const auto desc = wrong.desc(NIBBLE_FP32);
    const auto tensors = wrong.tensors();
    EXPECT_EQ(nibble_moe_create(device_, &desc, &tensors, &moe_), NIBBLE_INVALID_ARGUMENT);
    return std::string(nibble_last_error());
  };
  MoeInput small(kSmall);
  small.w2_factor[2] = 1.1e-38F;
  EXPECT_EQ(create(small).rfind("w2 of expert 2, row 0 has the factor 1.1e-38", 0), 0U);
  MoeInputShape quantized = kSmall;
  quantized.fp4_operand = true;
  quantized.static_scales = true;
  MoeInput least(quantized);
  least.w13_input_scale[1] = 1e-34F;
  EXPECT_EQ(create(least),
            "w13_input_scale of expert 1 is 1e-34; the CPU takes 2^-112 (1.92593e-34) or more");
}

TEST_F(CapiCpuMoe, AWorkspaceServesLayersOfItsDescriptionAlone) {
  const MoeInput input(kSmall);
  make(input, NIBBLE_FP32);
  MoeInputShape wider = kSmall;
  wider.hidden = 128;
  const MoeInput other(wider);
  const auto desc = other.desc(NIBBLE_FP32);
  const auto tensors = other.tensors();
  nibble_moe* another = nullptr;
  ASSERT_CALL_OK(nibble_moe_create(device_, &desc, &tensors, &another));
  std::vector<float> out;
  const auto args = args_of(other, out);
  EXPECT_EQ(nibble_moe_run(another, workspace_, &args, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "the workspace was made for another layer's description");
  nibble_moe_destroy(another);
  nibble_moe_workspace* none = nullptr;
  EXPECT_EQ(nibble_moe_workspace_create(moe_, 0, &none), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "most_tokens is 0; give 1 to 2147483647");
  EXPECT_EQ(none, nullptr);
  drop();
}

}  // namespace
}  // namespace nibble::capi
