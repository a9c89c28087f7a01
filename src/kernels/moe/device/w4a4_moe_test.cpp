// What of a W4A4 layer for a GPU needs none.
#include "kernels/moe/device/w4a4_moe.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "formats/test_floats.h"
#include "kernels/moe/layer_checks.h"
#include "kernels/moe/test_layer.h"

namespace nibble {
namespace {

CudaMoeConfig w4a4_config(std::int64_t hidden, std::int64_t intermediate) {
  return {.hidden = hidden, .intermediate = intermediate, .router = {.experts = 4, .top_k = 2}};
}

std::string w4a4_refusal(const CudaMoeConfig& config, Format format = Format::kNvfp4) {
  const auto problem = cuda_w4a4_moe_problem(config, format, false, false);
  return problem.ok() ? "" : problem.error().message;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ---- the problem --------------------------------------------------------------------------------

TEST(W4A4MoeProblem, RefusesWhatTheKernelsDoNotTake) {
  EXPECT_EQ(w4a4_refusal(w4a4_config(64, 32)), "");
  CudaMoeConfig config = w4a4_config(64, 32);
  config.activations = Element::kFp32;
  EXPECT_EQ(w4a4_refusal(config), "the layer takes bf16 or fp16 activations on a GPU, not fp32");
  config = w4a4_config(64, 32);
  config.router.experts = 1537;
  EXPECT_EQ(w4a4_refusal(config), "the router has 1537 experts; give a number from 1 to 1536");
  config.router.experts = 1025;
  EXPECT_EQ(w4a4_refusal(config), "");
  config = w4a4_config(64, 32);
  config.static_input_scales = true;
  EXPECT_EQ(w4a4_refusal(config, Format::kMxfp4),
            "static input scales belong to nvfp4 activations; these are mxfp4");
  EXPECT_TRUE(mentions(w4a4_refusal(w4a4_config(64, 32), Format::kBf16), "bf16"));
}

// Shards of models, as the field's reports have them: right, or refused with the numbers.
TEST(W4A4MoeProblem, TensorParallelShards) {
  for (const std::int64_t intermediate : {640, 320, 160, 80, 352, 1856}) {
    for (const bool fixed : {false, true}) {
      CudaMoeConfig config = w4a4_config(2560, intermediate);
      config.static_input_scales = fixed;
      EXPECT_EQ(w4a4_refusal(config), "") << intermediate;
    }
  }
  EXPECT_EQ(w4a4_refusal(w4a4_config(2880, 2880), Format::kMxfp4), "");
  EXPECT_EQ(w4a4_refusal(w4a4_config(2560, 352), Format::kMxfp4), "");
  // 640 of 8 ranks in MXFP4, 1,856 of 8 ranks in NVFP4.
  for (const std::string& refusal : {w4a4_refusal(w4a4_config(2560, 80), Format::kMxfp4),
                                     w4a4_refusal(w4a4_config(2560, 232))}) {
    EXPECT_TRUE(mentions(refusal, "down")) << refusal;
    EXPECT_TRUE(mentions(refusal, "not whole blocks")) << refusal;
  }
  EXPECT_TRUE(mentions(w4a4_refusal(w4a4_config(2560, 80), Format::kMxfp4), "80 columns"));
  EXPECT_TRUE(mentions(w4a4_refusal(w4a4_config(2560, 232)), "232 columns"));
  const std::string hidden = w4a4_refusal(w4a4_config(2568, 640));
  EXPECT_TRUE(mentions(hidden, "gate_up") && mentions(hidden, "2568")) << hidden;
}

TEST(W4A4MoeProblem, RowsOfEachTokenAndSlot) {
  CudaMoeConfig config = w4a4_config(96, 48);
  config.activations = Element::kFp16;
  config.activation.kind = ActivationKind::kClampedSwiGlu;
  const auto problem = cuda_w4a4_moe_problem(config, Format::kNvfp4, true, false);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->gate_up, (W4A4Problem{.experts = 4,
                                           .n = 96,
                                           .k = 96,
                                           .output = W4A4Output::kFp16,
                                           .epilogue = Epilogue::kClampedSwiGlu,
                                           .bias = true}));
  EXPECT_EQ(problem->down, (W4A4Problem{.experts = 4, .n = 96, .k = 48}));
  EXPECT_EQ(problem->tokens, (QuantizeShape{Element::kFp16, QuantizeMode::kNvfp4Rows, 96}));
  EXPECT_EQ(problem->slots, (QuantizeShape{Element::kFp16, QuantizeMode::kNvfp4Rows, 48}));
}

TEST(W4A4MoeProblem, StaticScalesAreAppliedByTheProduct) {
  CudaMoeConfig config = w4a4_config(96, 48);
  config.static_input_scales = true;
  config.output = Element::kFp32;
  const auto problem = cuda_w4a4_moe_problem(config, Format::kNvfp4, false, true);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->gate_up.output, W4A4Output::kNvfp4);
  EXPECT_EQ(problem->gate_up.epilogue, Epilogue::kSwiGlu);
  EXPECT_EQ(problem->down.output, W4A4Output::kFp32);
  EXPECT_TRUE(problem->down.bias);
  EXPECT_EQ(problem->tokens, (QuantizeShape{Element::kBf16, QuantizeMode::kNvfp4, 96}));
  EXPECT_FALSE(problem->slots.has_value());
}

TEST(W4A4MoeProblem, Mxfp4HasNoFactors) {
  const auto problem = cuda_w4a4_moe_problem(w4a4_config(96, 64), Format::kMxfp4, false, false);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->gate_up.format, Format::kMxfp4);
  EXPECT_EQ(problem->tokens, (QuantizeShape{Element::kBf16, QuantizeMode::kMxfp4, 96}));
  EXPECT_EQ(problem->slots, (QuantizeShape{Element::kBf16, QuantizeMode::kMxfp4, 64}));
}

// ---- the workspace ------------------------------------------------------------------------------

// Arrays begin at multiples of 256 bytes. 5 tokens of top-2 of 4 experts: 10 choices on 4 experts
// are at most 10 + 7 x 4 = 38, so 40, slots.
TEST(W4A4MoePlan, ArraysOneAfterTheOther) {
  const auto problem = cuda_w4a4_moe_problem(w4a4_config(6144, 80), Format::kNvfp4, false, false);
  ASSERT_TRUE(problem.ok());
  const W4A4MoePlan plan =
      w4a4_moe_plan(*problem, {.grid_a = 132, .grid_b = 264, .partial_bytes = 1000}, 5);
  EXPECT_EQ(plan.sizes.slots(), 40);
  EXPECT_EQ(plan.sizes.flags_a, 132);
  EXPECT_EQ(plan.sizes.flags_b, 264);
  const W4A4MoePlaces& places = plan.places;
  // Routing: nine arrays of less than 256 bytes each.
  EXPECT_EQ(places.partials, 9U * 256);
  EXPECT_EQ(places.token_codes, places.partials + 1024);
  EXPECT_EQ(places.token_scales, places.token_codes + 5 * 3072);
  // 128 rows of 384 scales.
  EXPECT_EQ(places.token_factors, places.token_scales + 128 * 384);
  EXPECT_EQ(places.activated, places.token_factors + 256);
  EXPECT_EQ(places.slot_codes, places.activated + 40 * 80 * 2 + 0);
  EXPECT_EQ(places.slot_scales, places.slot_codes + 1792);  // 1,600
  // 5 scales a row are two tiles of 128 x 4.
  EXPECT_EQ(places.slot_factors, places.slot_scales + 2 * 512);
  EXPECT_EQ(places.rows, places.slot_factors + 256);
  EXPECT_EQ(plan.memory.size(), places.rows + 40 * 6144 * 2);
}

TEST(W4A4MoePlan, StaticScalesNeedNoRowsBetween) {
  CudaMoeConfig config = w4a4_config(6144, 2048);
  const auto rows = cuda_w4a4_moe_problem(config, Format::kNvfp4, false, false);
  config.static_input_scales = true;
  const auto fixed = cuda_w4a4_moe_problem(config, Format::kNvfp4, false, false);
  ASSERT_TRUE(rows.ok() && fixed.ok());
  const W4A4MoeLaunches launches{.grid_a = 1, .grid_b = 1};
  const W4A4MoePlan with = w4a4_moe_plan(*rows, launches, 64);
  const W4A4MoePlan without = w4a4_moe_plan(*fixed, launches, 64);
  // 64 x 2 + 7 x 4 = 156, so 160, slots; factors of 64 tokens and of 160 slots.
  EXPECT_EQ(with.memory.size() - without.memory.size(), 160U * 2048 * 2 + 256 + 768);
  // GLM-5's scale of rows needs 64 bits: 2^20 tokens of top-8, 6,144 columns in bf16.
  CudaMoeConfig large = w4a4_config(6144, 2048);
  large.router = {.experts = 256, .top_k = 8};
  const auto glm = cuda_w4a4_moe_problem(large, Format::kNvfp4, false, false);
  ASSERT_TRUE(glm.ok());
  EXPECT_GT(w4a4_moe_plan(*glm, launches, std::int64_t{1} << 20).memory.size(),
            std::size_t{1} << 36);
}

// ---- weights ------------------------------------------------------------------------------------

TEST(W4A4Weights, FactorsOfGateAndUpTimesThatOfTheTokens) {
  const TestLayer layer({.experts = 3});
  const auto alpha = w4a4_alpha(layer.gate_up, RowOrder::kGateUp, 0.25F);
  ASSERT_TRUE(alpha.ok());
  ASSERT_EQ(alpha->size(), 6U);
  for (std::size_t expert = 0; expert < 3; ++expert) {
    const std::vector<MatrixSegment>& segments = layer.gate_up[expert].segments;
    ASSERT_EQ(segments.size(), 2U);
    EXPECT_NE(segments[0].factor, segments[1].factor);
    EXPECT_EQ((*alpha)[2 * expert], segments[0].factor / 4);
    EXPECT_EQ((*alpha)[2 * expert + 1], segments[1].factor / 4);
  }
  const auto down = w4a4_alpha(layer.down, RowOrder::kPlain, 1);
  ASSERT_TRUE(down.ok());
  EXPECT_EQ((*down)[4], layer.down[2].segments[0].factor);
  EXPECT_EQ((*down)[5], layer.down[2].segments[0].factor);
}

std::string alpha_refusal(const QuantizedMatrix& matrix, RowOrder order, float token_factor = 1) {
  const auto alpha = w4a4_alpha({&matrix, 1}, order, token_factor);
  return alpha.ok() ? "" : alpha.error().message;
}

TEST(W4A4Weights, FactorsWithinAMatrixAreRefused) {
  const TestLayer layer({.experts = 1, .top_k = 1});
  QuantizedMatrix matrix = layer.gate_up.front();  // 64 rows, two factors
  EXPECT_EQ(alpha_refusal(matrix, RowOrder::kGateUp), "");
  EXPECT_NE(alpha_refusal(matrix, RowOrder::kPlain), "");
  matrix.segments = {{0, 0.5F}, {16, 0.5F}, {32, 2}, {48, 2}};
  EXPECT_EQ(alpha_refusal(matrix, RowOrder::kGateUp), "");
  matrix.segments = {{0, 0.5F}, {32, 2}, {48, 3}};
  EXPECT_EQ(alpha_refusal(matrix, RowOrder::kGateUp),
            "expert 0: the factor changes from 2 to 3 at row 48, within a matrix");
  matrix.segments = {};
  EXPECT_EQ(alpha_refusal(matrix, RowOrder::kGateUp), "");
  matrix.segments = {{0, 1e30F}};
  EXPECT_EQ(alpha_refusal(matrix, RowOrder::kPlain, 1e30F),
            "expert 0: the factor 1e+30 of its weights, times 1e+30 of its input, is inf");
}

// 64 rows of 4 scales: row r, column c at (r % 32) * 16 + r / 32 * 4 + c.
TEST(W4A4Weights, ScalesInTheOrderOfTheInstruction) {
  const TestLayer layer({.experts = 1, .top_k = 1});
  const QuantizedMatrix& matrix = layer.gate_up.front();
  const std::vector<std::uint8_t> tiles = w4a4_scales(matrix);
  ASSERT_EQ(tiles.size(), 512U);
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      ASSERT_EQ(tiles[row % 32 * 16 + row / 32 * 4 + column], matrix.scales[row * 4 + column]);
    }
  }
}

std::string shape_refusal(const QuantizedMatrix& matrix) {
  const auto shape = w4a4_shape({&matrix, 1}, RowOrder::kPlain);
  return shape.ok() ? "" : shape.error().message;
}

TEST(W4A4Weights, ScalesThatTheInstructionDoesNotTakeAreRefused) {
  const TestLayer layer({.experts = 1, .top_k = 1});
  QuantizedMatrix matrix = layer.down.front();  // 64 x 32, two scales a row
  EXPECT_EQ(shape_refusal(matrix), "");
  std::vector<std::uint8_t> scales(matrix.scales.begin(), matrix.scales.end());
  scales[2 * 7 + 1] |= 0x80;
  matrix.scales = scales;
  EXPECT_EQ(shape_refusal(matrix),
            "expert 0: the scale of row 7, columns from 16, has a sign, and the FP4 instruction "
            "takes scales without one; take W4A16");
  scales[2 * 7 + 1] = 0x7f;
  EXPECT_TRUE(mentions(shape_refusal(matrix), "not a number"));
  const TestLayer partial({.experts = 1, .top_k = 1, .hidden = 64, .intermediate = 24});
  EXPECT_EQ(shape_refusal(partial.down.front()),
            "the weights have 24 columns, which are not whole nvfp4 blocks of 16");
  // Codes of e8m0 have no sign: 0x80 is 2.
  const TestLayer mxfp4({.experts = 1, .top_k = 1, .format = Format::kMxfp4});
  QuantizedMatrix other = mxfp4.down.front();
  const std::vector<std::uint8_t> twos(other.scales.size(), 0x80);
  other.scales = twos;
  EXPECT_EQ(shape_refusal(other), "");
}

TEST(W4A4Weights, TheLargestInputScaleOfAllExperts) {
  TestLayer layer({.experts = 3});
  layer.gate_up[0].input_scale = 1e-3F;
  layer.gate_up[1].input_scale = 3e-3F;
  layer.gate_up[2].input_scale = 2e-3F;
  const auto scale = largest_input_scale(layer.gate_up, "gate_up");
  ASSERT_TRUE(scale.ok());
  EXPECT_EQ(*scale, 3e-3F);
  const auto refusal = [&] {
    const auto refused = largest_input_scale(layer.gate_up, "gate_up");
    return refused.ok() ? "" : refused.error().message;
  };
  layer.gate_up[2].input_scale = 0;
  EXPECT_EQ(refusal(), "gate_up of expert 2 has input scale 0, which is not above 0");
  layer.gate_up[2].input_scale = kNan;
  EXPECT_EQ(refusal(), "gate_up of expert 2 has input scale nan, which is not finite");
  layer.gate_up[1].input_scale.reset();
  EXPECT_EQ(refusal(),
            "gate_up of expert 1 has no input scale; choose scales by row, or bf16 activations");
}

}  // namespace
}  // namespace nibble
