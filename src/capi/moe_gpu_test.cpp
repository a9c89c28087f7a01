// A layer of experts on a GPU through the C API, against double precision.
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "capi/test_capi_gpu.h"
#include "capi/test_moe.h"

namespace nibble::capi {
namespace {

std::vector<std::uint16_t> halves_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(upper_half(value));
  return halves;
}

// A layer's tensors and a call's rows in memory of the GPU.
struct LayerOnGpu {
  const MoeInput& input;
  GpuArray<std::uint8_t> w13{input.w13_codes};
  GpuArray<std::uint8_t> w13_scale{input.w13_scales};
  GpuArray<float> w13_factor{input.w13_factor};
  GpuArray<float> w13_bias{input.w13_bias};
  GpuArray<std::uint8_t> w2{input.w2_codes};
  GpuArray<std::uint8_t> w2_scale{input.w2_scales};
  GpuArray<float> w2_factor{input.w2_factor};
  GpuArray<float> w2_bias{input.w2_bias};
  GpuArray<float> w13_input_scale{input.w13_input_scale};
  GpuArray<float> w2_input_scale{input.w2_input_scale};
  GpuArray<std::uint16_t> x{halves_of(input.x)};
  GpuArray<std::uint16_t> shared{halves_of(input.shared)};
  GpuArray<std::int32_t> ids{input.ids};
  GpuArray<float> weights{input.weights};
  GpuArray<std::uint16_t> out = GpuArray<std::uint16_t>::poisoned(input.x.size());
  nibble_moe* moe = nullptr;
  nibble_moe_workspace* workspace = nullptr;

  LayerOnGpu(const MoeInput& given, nibble_device* device, bool weights_on_device) : input(given) {
    const auto desc = input.desc(NIBBLE_BF16);
    auto tensors = input.tensors();
    if (weights_on_device) {
      tensors.on_device = 1;
      tensors.w13 = w13.data();
      tensors.w13_scale = w13_scale.data();
      tensors.w13_factor = w13_factor.data();
      tensors.w2 = w2.data();
      tensors.w2_scale = w2_scale.data();
      tensors.w2_factor = w2_factor.data();
      if (input.shape.biases) {
        tensors.w13_bias = w13_bias.data();
        tensors.w2_bias = w2_bias.data();
      }
      if (input.shape.static_scales) {
        tensors.w13_input_scale = w13_input_scale.data();
        tensors.w2_input_scale = w2_input_scale.data();
      }
    }
    EXPECT_CALL_OK(nibble_moe_create(device, &desc, &tensors, &moe));
    EXPECT_CALL_OK(nibble_moe_workspace_create(moe, input.shape.tokens, &workspace));
  }
  ~LayerOnGpu() {
    nibble_moe_workspace_destroy(workspace);
    nibble_moe_destroy(moe);
  }
  LayerOnGpu(const LayerOnGpu&) = delete;
  LayerOnGpu& operator=(const LayerOnGpu&) = delete;

  nibble_moe_args args() const {
    auto made = sized<nibble_moe_args>();
    made.tokens = input.shape.tokens;
    made.hidden_states = x.data();
    made.topk_ids = ids.data();
    made.topk_weights = weights.data();
    made.shared = shared.data();
    made.out = out.data();
    return made;
  }
  // Activations between the products and the output are bf16.
  void expect_right() const {
    std::vector<float> y;
    for (const std::uint16_t half : out.read()) y.push_back(from_upper_half(half));
    // Values between the products are rounded to bf16 before they become codes: some become others.
    input.expect_near(y, input.shape.fp4_operand ? 0x1p-4 : 0x1p-7);
  }
};

class CudaCapiMoe : public CapiGpuTest {
 protected:
  void expect_layer(const MoeInputShape& shape, bool weights_on_device) {
    const MoeInput input(shape);
    const LayerOnGpu layer(input, device(), weights_on_device);
    const auto args = layer.args();
    ASSERT_CALL_OK(nibble_moe_run(layer.moe, layer.workspace, &args, stream().handle()));
    check_ok(stream().synchronize());
    layer.expect_right();
  }
};

constexpr MoeInputShape kLayer{
    .tokens = 9, .experts = 6, .top_k = 2, .hidden = 128, .intermediate = 64};

TEST_F(CudaCapiMoe, WeightsOfTheHostAndOfTheGpu) {
  expect_layer(kLayer, false);
  MoeInputShape flashinfer = kLayer;  // up rows first, and scales in tiles
  flashinfer.row_order = NIBBLE_UP_GATE;
  flashinfer.scale_layout = NIBBLE_SCALES_128X4;
  expect_layer(flashinfer, true);
  expect_layer({.tokens = 3,
                .experts = 4,
                .top_k = 4,
                .hidden = 96,
                .intermediate = 160,
                .mxfp4 = true,
                .clamped = true,
                .biases = true,
                .row_order = NIBBLE_INTERLEAVED},
               true);
}

TEST_F(CudaCapiMoe, OperandsInFp4) {
  MoeInputShape shape = kLayer;
  shape.fp4_operand = true;
  expect_layer(shape, false);
  shape.static_scales = true;
  shape.row_order = NIBBLE_UP_GATE;
  shape.scale_layout = NIBBLE_SCALES_128X4;
  expect_layer(shape, true);
  const MoeInput input(shape);
  const LayerOnGpu layer(input, device(), true);
  auto info = sized<nibble_moe_info>();
  ASSERT_CALL_OK(nibble_moe_describe(layer.moe, &info));
  EXPECT_EQ(info.software_mma != 0, gpu().info().major != 12);
}

TEST_F(CudaCapiMoe, CapturedIntoAGraph) {
  const MoeInput input(kLayer);
  const LayerOnGpu layer(input, device(), true);
  const auto args = layer.args();
  cuda::Graph graph = value_of(stream().capture([&]() -> Result<> {
    if (nibble_moe_run(layer.moe, layer.workspace, &args, stream().handle()) == NIBBLE_OK) {
      return {};
    }
    return run_error("{}", nibble_last_error());
  }));
  for (int replay = 0; replay < 3; ++replay) check_ok(graph.launch(stream()));
  check_ok(stream().synchronize());
  layer.expect_right();
}

TEST_F(CudaCapiMoe, ChoicesOfNoExpertAreLeftOutAndCounted) {
  MoeInput input(kLayer);
  input.ids[0] = -1;
  input.ids[5] = 6;
  const LayerOnGpu layer(input, device(), false);
  const auto args = layer.args();
  ASSERT_CALL_OK(nibble_moe_run(layer.moe, layer.workspace, &args, stream().handle()));
  check_ok(stream().synchronize());
  layer.expect_right();
  std::int64_t dropped = 0;
  ASSERT_CALL_OK(nibble_moe_dropped_choices(layer.workspace, &dropped));
  EXPECT_EQ(dropped, 2);
}

TEST_F(CudaCapiMoe, LayersShareAWorkspaceAndKernels) {
  const MoeInput input(kLayer);
  const LayerOnGpu first(input, device(), true);
  const LayerOnGpu second(input, device(), false);
  const auto args = second.args();
  ASSERT_CALL_OK(nibble_moe_run(second.moe, first.workspace, &args, stream().handle()));
  check_ok(stream().synchronize());
  second.expect_right();
  auto info = sized<nibble_moe_info>();
  ASSERT_CALL_OK(nibble_moe_describe(second.moe, &info));
  EXPECT_EQ(info.is_gpu, 1);
  EXPECT_NE(std::string(info.layer).find("6 x [128, 128] nvfp4 x bf16 swiglu"), std::string::npos);
  EXPECT_NE(std::string(info.tactics), "");
}

TEST_F(CudaCapiMoe, WhatIsRefused) {
  const MoeInput input(kLayer);
  const LayerOnGpu layer(input, device(), false);
  const auto args = layer.args();
  auto wrong = args;
  wrong.tokens = 10;
  EXPECT_EQ(nibble_moe_run(layer.moe, layer.workspace, &wrong, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "tokens is 10; the workspace holds 0 to 9");
  wrong = args;
  wrong.out = layer.out.data() + 1;
  EXPECT_EQ(nibble_moe_run(layer.moe, layer.workspace, &wrong, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(nibble_last_error()).find("not aligned"), std::string::npos);
  auto desc = input.desc(NIBBLE_FP32);
  const auto tensors = input.tensors();
  nibble_moe* none = nullptr;
  EXPECT_EQ(nibble_moe_create(device(), &desc, &tensors, &none), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "dtype is NIBBLE_FP32; a layer takes bf16 or fp16 on a GPU");
}

}  // namespace
}  // namespace nibble::capi
