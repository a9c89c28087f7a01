#include "bench/cuda_predict.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble {
namespace {

// Round numbers: 1,000 GB/s, 100 SMs at 1 GHz, 1,000 TFLOP/s and 500 of mma.sync.
CudaRates round_rates() {
  return {.read_gb_s = 1000,
          .matrix_tflops = 1000,
          .mma_tflops = 500,
          .start_us = 8,
          .gap_us = 0.5,
          .sms = 100,
          .clock_ghz = 1};
}

// 100 experts of [2560, 1280] with 8 tokens each: 100 x 10 x 10 steps are 100 of every SM. Memory
// 2 GB are 2,000 us; 100 x 8 x 3,276,800 x 2 FLOP at 500 TFLOP/s are 10.5 us; 327,680,000 weights
// x 1.9 / (128 x 100 x 1e3) lanes a us are 48.64 us.
CudaProduct round_product() {
  return {.n = 2560,
          .k = 1280,
          .tokens = std::vector<std::int64_t>(100, 8),
          .bytes = 2e9,
          .tactic = {.tile_tokens = 8, .tile_rows = 256, .step_columns = 128}};
}

TEST(CudaPredict, AProductByHand) {
  EXPECT_NEAR(predict_product_us(round_product(), round_rates()), std::hypot(2000, 48.64), 1e-6);
}

TEST(CudaPredict, TokensBeyondATileAreAnotherPass) {
  CudaProduct product = round_product();
  product.bytes = 0;
  product.tokens.assign(100, 9);  // two tiles of 8
  EXPECT_NEAR(predict_product_us(product, round_rates()), 2 * 48.64, 1e-6);
  product.tactic.tile_tokens = 128;
  product.tactic.unit = MatrixUnit::kWgmma;
  // One tile of 128: 100 x 128 x 3,276,800 x 2 FLOP at 1,000 TFLOP/s are 83.886 us.
  EXPECT_NEAR(predict_product_us(product, round_rates()), 83.88608, 1e-6);
}

TEST(CudaPredict, StepsThatDoNotDivideLeaveATail) {
  CudaProduct product = round_product();
  product.tokens.assign(1, 8);  // 100 steps
  product.n = 2816;             // 110 steps for 100 blocks: two of each
  product.bytes = 11e6;
  const double compute = 2816.0 * 1280 * 1.9 / 12.8e6;
  EXPECT_NEAR(predict_product_us(product, round_rates()), 200.0 / 110 * std::hypot(11, compute),
              1e-9);
  product.tactic.blocks = 110;
  EXPECT_NEAR(predict_product_us(product, round_rates()), std::hypot(11, compute), 1e-9);
}

TEST(CudaPredict, ALayerIsItsPartsAndTheGaps) {
  const double product = predict_product_us(round_product(), round_rates());
  CudaLayer layer{.products = {round_product(), round_product()}};
  EXPECT_NEAR(predict_layer_us(layer, round_rates()), 8 + 2 * product + 0.5, 1e-9);
  layer.other_launches = 3;
  layer.other_bytes = 5e6;
  EXPECT_NEAR(predict_layer_us(layer, round_rates()), 8 + 2 * product + 0.5 + 1.5 + 5, 1e-9);
}

TEST(CudaPredict, NoTokensTakeNoTime) {
  CudaProduct product = round_product();
  product.tokens.assign(100, 0);
  EXPECT_EQ(predict_product_us(product, round_rates()), 0);
}

// Clocks of wgmma on an H200: N = 8 and 16 about 16, N = 32 16 to 19, N = 64 34, N = 128 64.
TEST(CudaPredict, NarrowTilesWasteWgmma) {
  EXPECT_EQ(unit_share(MatrixUnit::kWgmma, 8), 0.25);
  EXPECT_EQ(unit_share(MatrixUnit::kWgmma, 16), 0.5);
  EXPECT_EQ(unit_share(MatrixUnit::kWgmma, 32), 1);
  EXPECT_EQ(unit_share(MatrixUnit::kWgmma, 128), 1);
  EXPECT_EQ(unit_share(MatrixUnit::kMma, 8), 1);
}

TEST(CudaPredict, NeedsItsRoofs) {
  GpuRoofs roofs{.sms = 132};
  EXPECT_FALSE(rates_of(roofs, 1.7).has_value());
  roofs.roofs["read_gb_s"] = {.value = 4700};
  roofs.roofs["mma_bf16_tflops"] = {.value = 600};
  roofs.roofs["bf16_tflops"] = {.reason = "no cuBLASLt"};
  const auto rates = rates_of(roofs, 1.7);
  ASSERT_TRUE(rates.has_value());
  EXPECT_EQ(rates->matrix_tflops, 600);  // the best that is known
  EXPECT_FALSE(rates_of(roofs, 0).has_value());
}

}  // namespace
}  // namespace nibble
