#include "bench/cuda_predict.h"

#include <cmath>
#include <gtest/gtest.h>

#include "bench/cuda_tactics.h"

namespace nibble {
namespace {

// Round numbers: 1,000 GB/s are 1,000,000 bytes a microsecond; 100 SMs at 1,000 clocks a
// microsecond; an SM's share of 1,000 TFLOPS is 10,000,000 operations a microsecond, of mma.sync
// half of that.
CudaRates round_rates() {
  return {.read_gb_s = 1000,
          .copy_gb_s = 1000,
          .matrix_tflops = 1000,
          .mma_tflops = 500,
          .graph_us = 3,
          .gap_us = 0.5,
          .sms = 100,
          .clock_ghz = 1};
}

// 100 experts of [2560, 1280] with 8 tokens each: 40 blocks of 64 rows are 10 row tiles of 256, and
// 20 chunks of 64 columns are 10 steps of 128, so 100 x 10 x 10 units are 100 of every SM.
CudaProduct round_product() {
  return {.n = 2560,
          .k = 1280,
          .tokens = std::vector<std::int64_t>(100, 8),
          .bytes = 2e8,
          .tactic = {.tile_tokens = 8, .tile_rows = 256, .step_columns = 128, .weight_bytes = 0.5}};
}

// Gate and up of gpt-oss-120b (2 x 2880 rows, 2880 columns), four experts with a token each.
CudaProduct few_experts() {
  return {.n = 5760,
          .k = 2880,
          .tokens = {1, 0, 1, 1, 0, 1},
          .tactic = {.tile_rows = 512, .cluster = 2, .halves_outputs = true}};
}

// One expert of [256, 640]: a tile of five steps, each done by another SM.
CudaProduct one_tile() {
  CudaProduct product = round_product();
  product.n = 256;
  product.k = 640;
  product.tokens = {8};
  return product;
}

TEST(CudaPredict, EveryUnitHasAnEqualPart) {
  const WorkCut cut = cut_of(round_product(), 100);
  EXPECT_EQ(cut.passes, 100);
  EXPECT_EQ(cut.tile_tokens, 8);
  EXPECT_EQ(cut.row_tiles, 10);
  EXPECT_EQ(cut.steps, 10);
  EXPECT_EQ(cut.clusters, 100);
  EXPECT_EQ(cut.units, 100);
  EXPECT_EQ(cut.takes, 0);  // parts are ten whole tiles
}

TEST(CudaPredict, PartsEndWithinTiles) {
  // 90 blocks of 64 rows, 16 of a cluster: 6 row tiles. 45 chunks, 2 a step: 23 steps. 4 x 6 x 23 =
  // 552 units for 66 clusters: 9 at most, so that a tile of 23 has 3 parts of others at most.
  CudaProduct product = few_experts();
  WorkCut cut = cut_of(product, 132);
  EXPECT_EQ(cut.row_tiles, 6);
  EXPECT_EQ(cut.steps, 23);
  EXPECT_EQ(cut.clusters, 66);
  EXPECT_EQ(cut.units, 9);
  EXPECT_EQ(cut.takes, 3);
  product.tactic.blocks_per_sm = 2;  // 132 clusters: 4.2 units, 5 at most
  cut = cut_of(product, 132);
  EXPECT_EQ(cut.units, 5);
  EXPECT_EQ(cut.takes, 5);
  product.tactic.split = false;  // 24 tiles for 132 clusters: one whole tile
  cut = cut_of(product, 132);
  EXPECT_EQ(cut.units, 23);
  EXPECT_EQ(cut.takes, 0);
}

TEST(CudaPredict, ATileOfMoreClustersThanUnitsHasAllSums) {
  const WorkCut cut = cut_of(one_tile(), 100);
  EXPECT_EQ(cut.units, 1);
  EXPECT_EQ(cut.takes, 4);
}

TEST(CudaPredict, TokensBeyondATileAreAnotherPass) {
  CudaProduct product = round_product();
  product.tokens = {9, 0, 40};
  product.tactic.tile_tokens = 32;
  // One tile and two; slots in eights, 16 + 40, are 18.67 a tile.
  const WorkCut cut = cut_of(product, 100);
  EXPECT_EQ(cut.passes, 3);
  EXPECT_NEAR(cut.tile_tokens, 56.0 / 3, 1e-12);
}

TEST(CudaPredict, TilesOfFewTokensAreNarrower) {
  CudaProduct product = round_product();
  product.tokens = {9, 0, 40, 96};
  product.tactic.tile_tokens = 64;
  product.tactic.widths = {32};
  // 32, 64, and of 96 a whole tile and half of one: ten, ten and twenty tiles.
  EXPECT_NEAR(cut_of(product, 1).tile_width, (32 + 64 + 64 + 32) / 4.0, 1e-12);
  // A part of ten tiles is an expert's; the second one's are the widest.
  EXPECT_NEAR(cut_of(product, 4).tile_width, 64, 1e-12);
  // Parts of 13.4 tiles: ten of 32 and 3.4 of 64; 6.6 of 64 and 6.8 of 48; the rest.
  EXPECT_NEAR(cut_of(product, 3).tile_width, (6.6 * 64 + 6.8 * 48) / 13.4, 1e-9);
}

TEST(CudaPredict, MemoryByHand) {
  const ProductTime time = product_time(round_product(), round_rates());
  // Weights 2560 x 1280 x 0.5 B = 1,638,400, tokens of 10 row tiles 8 x 1280 x 2 B = 204,800; 100
  // times that at 940,000 B/us.
  EXPECT_NEAR(time.ingress_us, 184.32 / 0.94, 1e-9);
  EXPECT_NEAR(time.dram_us, 200, 1e-9);
  // A unit is 128 columns of 256 rows of 0.5 B and 8 tokens of 2 B: 18,432 B; 100 at 64,000 B/us.
  EXPECT_NEAR(time.port_us, 28.8, 1e-9);
}

TEST(CudaPredict, RowsThatFillNoClusterCountAsWhole) {
  CudaProduct product = round_product();
  product.n = 2624;  // 41 blocks: 11 row tiles
  EXPECT_NEAR(product_time(product, round_rates()).ingress_us, 1.1 * 184.32 / 0.94, 1e-9);
  product.tactic.cluster = 2;  // 6 row tiles of two blocks each
  EXPECT_NEAR(product_time(product, round_rates()).ingress_us, 1.2 * 184.32 / 0.94, 1e-9);
}

TEST(CudaPredict, ArithmeticByHand) {
  const ProductTime time = product_time(round_product(), round_rates());
  // 100 units x 256 x 128 = 3,276,800 weights an SM. x 8 tokens x 2 operations at 5,000,000 a us.
  EXPECT_NEAR(time.multiply_us, 10.48576, 1e-9);
  // x 2.3 lane operations at 128,000 a us.
  EXPECT_NEAR(time.dequantize_us, 58.88, 1e-9);
  EXPECT_NEAR(time.epilogue_us, 10 * 0.5, 1e-9);  // ten tiles
  EXPECT_NEAR(time.sums_us, 0.45, 1e-12);
}

TEST(CudaPredict, AnSmWithTwoBlocksDoesTheWorkOfBoth) {
  CudaProduct product = round_product();
  product.tactic.blocks_per_sm = 2;  // 50 units a block
  const ProductTime time = product_time(product, round_rates());
  EXPECT_NEAR(time.port_us, 28.8, 1e-9);
  EXPECT_NEAR(time.dequantize_us, 58.88, 1e-9);
  EXPECT_NEAR(time.epilogue_us, 5 * 0.5, 1e-9);  // five tiles a block, side by side
}

// Clocks of wgmma on an H200: N = 8 and 16 about 16, N = 32 16 to 19, N = 64 34, N = 128 64.
TEST(CudaPredict, WgmmaTakesItsClocksOrTheSustainedRate) {
  CudaProduct product = round_product();
  product.tactic.unit = MatrixUnit::kWgmma;
  // 3,276,800 weights are 3,200 instructions of 64 x 16, 16 clocks each.
  EXPECT_NEAR(product_time(product, round_rates()).multiply_us, 51.2, 1e-9);
  product.tactic.tile_tokens = 128;  // also where eight tokens are there
  EXPECT_NEAR(product_time(product, round_rates()).multiply_us, 204.8, 1e-9);
  CudaRates rates = round_rates();
  rates.matrix_tflops = 250;  // 2 x 3,276,800 x 128 operations at 2,500,000 a us
  EXPECT_NEAR(product_time(product, rates).multiply_us, 335.54432, 1e-9);
}

TEST(CudaPredict, SumsOfOthersAreTaken) {
  // Given or taken five times; 4 x 256 x 8 sums of 4 B at 64,000 B/us.
  EXPECT_NEAR(product_time(one_tile(), round_rates()).sums_us, 5 * 0.45 + 0.512, 1e-9);
}

TEST(CudaPredict, MemoryAndArithmeticOverlapInPart) {
  ProductTime time{.ingress_us = 100, .dram_us = 80, .port_us = 90};
  EXPECT_NEAR(time.us(), 100, 1e-9);
  time.multiply_us = 60;
  time.dequantize_us = 30;
  time.epilogue_us = 10;
  EXPECT_NEAR(time.us(), 100 * std::pow(2.0, 1.0 / 7), 1e-9);
  time.start_us = 6;
  time.sums_us = 4;
  EXPECT_NEAR(time.us(), 110 + 10.408951367381, 1e-9);
}

TEST(CudaPredict, ALayerIsItsPartsAndTheGaps) {
  const double product = predict_product_us(round_product(), round_rates());
  CudaLayer layer{.products = {round_product(), round_product()}};
  EXPECT_NEAR(predict_layer_us(layer, round_rates()), 3 + 2 * product + 0.5, 1e-9);
  layer.other_launches = 3;
  layer.other_bytes = 5e6;
  EXPECT_NEAR(predict_layer_us(layer, round_rates()), 3 + 2 * product + 0.5 + 3 * 2.5 + 5, 1e-9);
}

TEST(CudaPredict, TheProductsOfALayer) {
  const BenchShape shape{
      .op = BenchOp::kMoe, .name = "moe", .experts = 64, .top_k = 4, .n = 512, .k = 1024};
  const CudaTactic gate_up{.tile_rows = 512, .halves_outputs = true};
  const CudaTactic down{.tile_rows = 128};
  const ExpertCounts counts = count_experts({0, 1, 2, 3, 4, 5, 6, 7}, 64);
  const CudaLayer layer = layer_to_predict(shape, 2, counts, gate_up, down);
  ASSERT_EQ(layer.products.size(), 2U);
  EXPECT_EQ(layer.products[0].n, 1024);
  EXPECT_EQ(layer.products[0].k, 1024);
  EXPECT_EQ(layer.products[0].tactic.tile_rows, 512);
  // 8 experts x 1024 x 1024 x 9/16 B, x of two tokens, eight rows of 512.
  EXPECT_EQ(layer.products[0].bytes, 4718592 + 4096 + 8192);
  EXPECT_EQ(layer.products[1].n, 1024);
  EXPECT_EQ(layer.products[1].k, 512);
  EXPECT_EQ(layer.products[1].tactic.tile_rows, 128);
  EXPECT_EQ(layer.products[1].tokens[7], 1);
  EXPECT_EQ(layer.other_bytes, 2 * 1024 * 2 * (8 + 2));
  EXPECT_EQ(layer.other_launches, 3);
  EXPECT_EQ(layer_to_predict(shape, 33, counts, gate_up, down).other_launches, 4);
}

// 64 experts of [2 x 512, 1024] and [1024, 512], eight met: up has 8 x 64 slabs, 6 of every one of
// 100 SMs, 16 chunks each; down 64 slabs, one of an SM, 8 chunks of eight experts.
TEST(CudaPredict, AWholeLayerInOneLaunch) {
  const BenchShape shape{
      .op = BenchOp::kMoe, .name = "moe", .experts = 64, .top_k = 4, .n = 512, .k = 1024};
  const ExpertCounts counts = count_experts({0, 1, 2, 3, 4, 5, 6, 7}, 64);
  // 16 x (6 x 24 + 2 x 68) + 64 x (24 + 68) = 10,368 clocks at 1,000 a us.
  EXPECT_NEAR(predict_one_launch_us(shape, counts, {.slabs = 4, .down_slabs = 1}, round_rates()),
              3 + 9.5 + 10.368, 1e-9);
  // 8 x 3 x 512 x 1024 x 9/16 B = 7,077,888 at 500 a ns.
  CudaRates rates = round_rates();
  rates.read_gb_s = 500;
  EXPECT_NEAR(predict_one_launch_us(shape, counts, {.slabs = 4, .down_slabs = 1}, rates),
              3 + 9.5 + 14.155776, 1e-9);
}

// A tile of 64 x 64 weights has 2,048 B of codes, and 256 B of scales in NVFP4, 128 B in MXFP4.
TEST(CudaPredict, ALayoutSaysWhatItsKernelCopies) {
  const W4A16Tactic tactic{.family = Family::kWgmma,
                           .rows = 512,
                           .tokens = 32,
                           .stage_chunks = 4,
                           .blocks_per_sm = 2,
                           .cluster = 4,
                           .split = false};
  const CudaTactic gate_up = layout_of({.mode = W4A16Mode::kClampedSwiGlu}, tactic);
  EXPECT_EQ(gate_up.unit, MatrixUnit::kWgmma);
  EXPECT_EQ(gate_up.tile_rows, 512);
  EXPECT_EQ(gate_up.tile_tokens, 32);
  EXPECT_EQ(gate_up.step_columns, 256);
  EXPECT_EQ(gate_up.blocks_per_sm, 2);
  EXPECT_EQ(gate_up.cluster, 4);
  EXPECT_FALSE(gate_up.split);
  EXPECT_TRUE(gate_up.halves_outputs);
  EXPECT_EQ(gate_up.weight_bytes, 2304.0 / 4096);
  const CudaTactic down = layout_of({.format = Format::kMxfp4}, {});
  EXPECT_EQ(down.unit, MatrixUnit::kMma);
  EXPECT_TRUE(down.split);
  EXPECT_FALSE(down.halves_outputs);
  EXPECT_EQ(down.weight_bytes, 2176.0 / 4096);
}

TEST(CudaPredict, NoTokensTakeNoTime) {
  CudaProduct product = round_product();
  product.tokens.assign(100, 0);
  EXPECT_EQ(predict_product_us(product, round_rates()), 0);
}

TEST(CudaPredict, NeedsItsRoofs) {
  GpuRoofs roofs{.sms = 132};
  roofs.roofs["read_gb_s"] = {.value = 4700};
  roofs.roofs["mma_bf16_tflops"] = {.value = 600};
  EXPECT_FALSE(rates_of(roofs, 1.7).has_value());
  roofs.roofs["copy_gb_s"] = {.value = 3900};
  roofs.roofs["bf16_tflops"] = {.reason = "no cuBLASLt"};
  const auto rates = rates_of(roofs, 1.7);
  ASSERT_TRUE(rates.has_value());
  EXPECT_EQ(rates->matrix_tflops, 600);  // the best that is known
  EXPECT_EQ(rates->copy_gb_s, 3900);
  EXPECT_FALSE(rates_of(roofs, 0).has_value());
}

}  // namespace
}  // namespace nibble
