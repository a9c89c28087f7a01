#include "kernels/moe/moe.h"

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "kernels/gemm/reference.h"
#include "kernels/moe/test_layer.h"

namespace nibble {
namespace {

const std::vector<TestShape>& shapes() {
  static const std::vector<TestShape> kShapes = {
      {.name = "no tokens", .tokens = 0},
      {.name = "one token"},
      {.name = "experts left empty", .tokens = 2, .experts = 16},
      {.name = "all tokens on one expert",
       .tokens = 9,
       .top_k = 1,
       .routing = TestRouting::kOneExpert},
      {.name = "all choices on one expert", .tokens = 3, .routing = TestRouting::kOneExpert},
      {.name = "ragged", .tokens = 5, .hidden = 90, .intermediate = 38},
      {.name = "one expert", .tokens = 4, .experts = 1, .top_k = 1},
      {.name = "512 experts",
       .tokens = 7,
       .experts = 512,
       .top_k = 8,
       .hidden = 32,
       .intermediate = 16},
      {.name = "every expert", .tokens = 3, .experts = 5, .top_k = 5, .hidden = 48},
      {.name = "ids given", .tokens = 6, .experts = 8, .routing = TestRouting::kGiven},
      {.name = "groups", .tokens = 6, .experts = 32, .top_k = 6, .routing = TestRouting::kGroups},
      {.name = "gpt-oss",
       .tokens = 6,
       .experts = 8,
       .top_k = 4,
       .hidden = 96,
       .intermediate = 96,
       .routing = TestRouting::kAfterTopK,
       .format = Format::kMxfp4},
      {.name = "bf16 experts", .tokens = 4, .format = Format::kBf16},
  };
  return kShapes;
}

// One product against its reference. fp32 alone for nvfp4: a few roundings of 2^-24 for each of at
// most 3 blocks of 32. bf16: what lies far below the largest of its block loses up to 2^-15 of it;
// fp32: everything does.
// int8: a value on a tie may take the other step, 1 / 127 of a block's largest, now and then.
struct Path {
  Format activations;
  double bound;
};
constexpr Path kPaths[] = {
    {Format::kFp32, 1e-4}, {Format::kBf16, 1e-4}, {Format::kInt8, 1e-3}, {Format::kNvfp4, 2e-6}};

bool has_path(const TestShape& shape, const Path& path) {
  return shape.format != Format::kBf16 || path.activations == Format::kBf16 ||
         path.activations == Format::kFp32;
}

std::string label(const TestShape& shape, const MoeConfig& config) {
  return shape.name + ": " + moe_name(config, shape.format);
}

// Rows of slots in the order of (token, choice).
std::vector<float> by_choice(std::span<const float> rows, std::span<const std::int32_t> slot_of) {
  std::vector<float> sorted;
  for (const std::int32_t slot : slot_of) {
    const std::size_t columns = rows.size() / slot_of.size();
    const auto row = rows.subspan(static_cast<std::size_t>(slot) * columns, columns);
    sorted.insert(sorted.end(), row.begin(), row.end());
  }
  return sorted;
}

void expect_stages(const TestLayer& layer, const MoeConfig& config, double bound) {
  const TestLayer::Output output = layer.call(config);
  const MoeReferenceParams params = layer.reference(config, output.workspace);
  const auto slot_of = output.workspace.slot_of();
  const std::vector<float> gate_up = by_choice(output.workspace.gate_up(), slot_of);
  const std::vector<float> activated = by_choice(output.workspace.activated(), slot_of);
  EXPECT_LE(moe_error(gate_up, reference_gate_up(params)), bound) << label(layer.shape, config);
  // The stages after the first start from what the layer itself has found: a value on the verge of
  // two steps has then gone the same way.
  const std::vector<double> found(gate_up.begin(), gate_up.end());
  EXPECT_LE(moe_error(activated, reference_activated(params, found)), 1e-6)
      << label(layer.shape, config);
  EXPECT_LE(moe_error(output.y, reference_output(params, activated)), bound)
      << label(layer.shape, config);
  EXPECT_LE(moe_error(output.y, moe_reference(params)), moe_error_limit(config.activations))
      << label(layer.shape, config);
}

TEST(Moe, EqualsTheReferenceStageByStage) {
  for (const TestShape& shape : shapes()) {
    const TestLayer layer(shape);
    for (const Path& path : kPaths) {
      if (!has_path(shape, path)) continue;
      for (const Isa isa : usable_isas()) {
        expect_stages(layer, layer.config(path.activations, isa), path.bound);
      }
    }
  }
}

TEST(Moe, StaticInputScales) {
  for (const TestShape& shape : shapes()) {
    if (shape.format == Format::kBf16) continue;
    const TestLayer layer(shape);
    MoeConfig config = layer.config(Format::kNvfp4);
    config.static_input_scales = true;
    expect_stages(layer, config, 2e-6);
  }
}

TEST(Moe, TheLargestInputScaleOfAllExpertsCounts) {
  TestLayer layer({.name = "scales", .tokens = 3, .routing = TestRouting::kGiven});
  MoeConfig config = layer.config(Format::kNvfp4);
  config.static_input_scales = true;
  const std::vector<float> even = layer.run(config);
  layer.gate_up[1].input_scale = 1.0F / kNvfp4Largest;
  layer.down[2].input_scale = 1.0F / kNvfp4Largest;
  EXPECT_TRUE(same_bits(layer.run(config), even));
  layer.down[2].input_scale = 80.0F / kNvfp4Largest;
  EXPECT_FALSE(same_bits(layer.run(config), even));
}

void expect_routes(const TestShape& shape, Format activations, double bound) {
  const TestLayer layer(shape);
  if (layer.ids_given() || shape.tokens == 0) return;
  const MoeConfig config = layer.config(activations);
  const TestLayer::Output output = layer.call(config);
  const std::vector<double> rounded = rounded_activations(layer.x, shape.hidden, activations);
  std::vector<double> logits(static_cast<std::size_t>(shape.tokens * shape.experts));
  gemm_reference(*layer.weights.router, rounded, logits);
  const auto experts = static_cast<std::size_t>(shape.experts);
  const auto top_k = static_cast<std::size_t>(shape.top_k);
  for (std::size_t token = 0; token < static_cast<std::size_t>(shape.tokens); ++token) {
    std::vector<float> row;
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const auto& bias = layer.weights.router_bias;
      const double extra = bias.empty() ? 0 : static_cast<double>(bias[expert]);
      row.push_back(static_cast<float>(logits[token * experts + expert] + extra));
    }
    const ReferenceRoute expected = reference_route(config.router, row);
    for (std::size_t choice = 0; choice < top_k; ++choice) {
      EXPECT_EQ(output.workspace.expert_ids()[token * top_k + choice], expected.ids[choice])
          << shape.name;
      EXPECT_NEAR(static_cast<double>(output.workspace.expert_weights()[token * top_k + choice]),
                  expected.weights[choice], bound)
          << shape.name;
    }
  }
}

TEST(Moe, RoutesAsTheReferenceDoes) {
  for (const TestShape& shape : shapes()) {
    // Logits of size 1 are sums of at most 96 products in fp32, of activations that were rounded to
    // bf16 or not at all: rounding them moves a weight by about 2^-9.
    expect_routes(shape, Format::kBf16, 1e-5);
    expect_routes(shape, Format::kFp32, 1e-5);
  }
}

TEST(Moe, TellsItsParts) {
  const TestLayer layer({.name = "parts"});
  ThreadPool pool(1);
  const Result<MoeLayer> packed = MoeLayer::make(layer.config(Format::kFp32), layer.weights, pool);
  ASSERT_TRUE(packed.ok());
  Result<MoeWorkspace> workspace = MoeWorkspace::make(*packed, 1);
  ASSERT_TRUE(workspace.ok());
  std::string told;
  const std::function<void(std::string_view)> ended = [&told](std::string_view part) {
    told += std::string(part) + " ";
  };
  std::vector<float> y(layer.x.size());
  moe({.layer = *packed, .workspace = *workspace, .x = layer.x, .y = y, .ended = &ended}, pool);
  EXPECT_EQ(told, "moe.router moe.gate_up moe.down moe.combine ");
}

TEST(Moe, TheErrorLimitTellsAWrongLayerFromARightOne) {
  const TestLayer layer({.name = "wrong", .tokens = 8, .experts = 6, .hidden = 96});
  for (const Path& path : kPaths) {
    const MoeConfig config = layer.config(path.activations);
    const TestLayer::Output output = layer.call(config);
    const double limit = moe_error_limit(path.activations);
    const MoeReferenceParams right = layer.reference(config, output.workspace);
    // One choice of one token with a weight 30 % off.
    std::vector<float> changed(right.expert_weights.begin(), right.expert_weights.end());
    changed[0] *= 1.3F;
    EXPECT_GT(moe_error(output.y, moe_reference({.config = config,
                                                 .weights = layer.weights,
                                                 .x = layer.x,
                                                 .expert_ids = right.expert_ids,
                                                 .expert_weights = changed})),
              limit);
    // One expert's up with the factor of its gate.
    std::vector<QuantizedMatrix> mixed(layer.gate_up);
    const auto used = static_cast<std::size_t>(right.expert_ids[0]);
    mixed[used].segments[1].factor = mixed[used].segments[0].factor;
    MoeWeights weights = layer.weights;
    weights.gate_up = mixed;
    EXPECT_GT(moe_error(output.y, moe_reference({.config = config,
                                                 .weights = weights,
                                                 .x = layer.x,
                                                 .expert_ids = right.expert_ids,
                                                 .expert_weights = right.expert_weights})),
              limit);
  }
  const std::vector<float> broken(2, std::nanf(""));
  EXPECT_EQ(moe_error(broken, std::vector<double>{1, 1}), HUGE_VAL);
}

// ---- the same bits ------------------------------------------------------------------------------

TEST(Moe, HasTheSameBitsForAnyNumberOfThreads) {
  for (const TestShape& shape : shapes()) {
    const TestLayer layer(shape);
    for (const Path& path : kPaths) {
      if (!has_path(shape, path)) continue;
      const MoeConfig config = layer.config(path.activations);
      const std::vector<float> expected = layer.run(config, 1);
      for (const int threads : {2, 3}) {
        EXPECT_TRUE(same_bits(layer.run(config, threads), expected))
            << label(shape, config) << ", " << threads << " threads";
      }
    }
  }
}

TEST(Moe, HasTheSameBitsForAnyChoiceOfThreads) {
  const TestLayer layer(shapes().front());
  MoeConfig config = layer.config(Format::kBf16);
  const std::vector<float> expected = layer.run(config, 1);
  for (const int gate_up : {1, 2, 9}) {
    config.threads = {.gate_up = {{1, 1 << 20, gate_up}}, .down = {{1, 1 << 20, 3 - gate_up % 3}}};
    EXPECT_TRUE(same_bits(layer.run(config, 3), expected)) << gate_up;
  }
}

TEST(Moe, ThreadsAreThoseOfTheRangeThatHoldsTheTokensAndEndsFirst) {
  const std::vector<ThreadRange> ranges = {{17, 64, 4}, {1, 1, 1}, {13, 48, 2}, {65, 80, 0}};
  const std::pair<std::int64_t, int> wanted[] = {{0, 0},  {1, 1},  {2, 0},  {12, 0}, {13, 2},
                                                 {48, 2}, {49, 4}, {64, 4}, {65, 0}, {81, 0}};
  for (const auto& [tokens, threads] : wanted) {
    EXPECT_EQ(threads_for(ranges, tokens), threads) << tokens;
  }
  EXPECT_EQ(threads_for({}, 1), 0);
}

TEST(Moe, HasTheSameBitsOnEveryInstructionSetWithTheIdsGiven) {
  for (TestShape shape : shapes()) {
    if (shape.format == Format::kBf16) continue;
    if (shape.routing != TestRouting::kOneExpert) shape.routing = TestRouting::kGiven;
    const TestLayer layer(shape);
    for (const Path& path : kPaths) {
      const std::vector<float> expected = layer.run(layer.config(path.activations, Isa::kPortable));
      for (const Isa isa : usable_isas()) {
        const MoeConfig config = layer.config(path.activations, isa);
        EXPECT_TRUE(same_bits(layer.run(config), expected)) << label(shape, config);
      }
    }
  }
}

TEST(Moe, ATokenDoesNotDependOnItsBatch) {
  for (const TestRouting routing : {TestRouting::kGroups, TestRouting::kAfterTopK}) {
    TestLayer layer({.tokens = 70, .experts = 8, .top_k = 3, .routing = routing});
    const std::vector<float> batch = layer.x;
    for (const Path& path : kPaths) {
      layer.shape.tokens = 70;
      layer.x = batch;
      const std::vector<float> all = layer.run(layer.config(path.activations));
      layer.shape.tokens = 1;
      for (const std::size_t token : {0U, 33U, 69U}) {
        const auto row = std::span(batch).subspan(token * 64, 64);
        layer.x.assign(row.begin(), row.end());
        EXPECT_TRUE(same_bits(layer.run(layer.config(path.activations)),
                              std::span(all).subspan(token * 64, 64)))
            << to_string(path.activations) << " token " << token;
      }
    }
  }
}

TEST(Moe, AWorkspaceServesCallsOfAnySize) {
  const TestLayer layer({.tokens = 9, .experts = 8});
  ThreadPool pool(1);
  const Result<MoeLayer> packed = MoeLayer::make(layer.config(Format::kInt8), layer.weights, pool);
  ASSERT_TRUE(packed.ok());
  Result<MoeWorkspace> workspace = MoeWorkspace::make(*packed, 9);
  ASSERT_TRUE(workspace.ok());
  const auto call = [&](std::size_t tokens) {
    std::vector<float> y(tokens * 64);
    moe({.layer = *packed,
         .workspace = *workspace,
         .x = std::span(layer.x).first(tokens * 64),
         .y = y},
        pool);
    EXPECT_EQ(workspace->tokens(), static_cast<std::int64_t>(tokens));
    return y;
  };
  const std::vector<float> all = call(9);
  for (const std::size_t tokens : {0U, 3U, 9U, 1U}) {
    EXPECT_TRUE(same_bits(call(tokens), std::span(all).first(tokens * 64))) << tokens;
  }
}

TEST(Moe, RoutingApartGivesTheSameBits) {
  const TestLayer layer({.tokens = 5, .experts = 8});
  ThreadPool pool(2);
  const Result<MoeLayer> packed = MoeLayer::make(layer.config(Format::kBf16), layer.weights, pool);
  ASSERT_TRUE(packed.ok());
  Result<MoeWorkspace> workspace = MoeWorkspace::make(*packed, 5);
  ASSERT_TRUE(workspace.ok());
  std::vector<float> routed(layer.x.size());
  moe({.layer = *packed, .workspace = *workspace, .x = layer.x, .y = routed}, pool);
  moe_route({.layer = *packed, .workspace = *workspace, .x = layer.x, .y = {}}, pool);
  const auto ids = workspace->expert_ids();
  const auto weights = workspace->expert_weights();
  const std::vector<std::int32_t> given(ids.begin(), ids.end());
  const std::vector<float> given_weights(weights.begin(), weights.end());
  std::vector<float> y(layer.x.size());
  moe({.layer = *packed,
       .workspace = *workspace,
       .x = layer.x,
       .expert_ids = given,
       .expert_weights = given_weights,
       .y = y},
      pool);
  EXPECT_TRUE(same_bits(y, routed));
}

TEST(Moe, TheSharedExpertsOutputIsAddedLast) {
  TestLayer layer({.tokens = 3});
  const MoeConfig config = layer.config(Format::kInt8);
  const std::vector<float> alone = layer.run(config);
  Random random(77);
  layer.shared = gaussian(random, 3 * 64);
  const std::vector<float> together = layer.run(config);
  for (std::size_t at = 0; at < alone.size(); ++at) {
    EXPECT_EQ(together[at], alone[at] + layer.shared[at]) << at;
  }
}

TEST(Moe, ATokenThatIsNotANumberSpoilsItselfAlone) {
  for (const Path& path : kPaths) {
    TestLayer layer({.tokens = 4, .experts = 3});
    const MoeConfig config = layer.config(path.activations);
    const std::vector<float> before = layer.run(config);
    layer.x[64 + 7] = std::nanf("");
    const std::vector<float> after = layer.run(config);
    for (std::size_t token = 0; token < 4; ++token) {
      const auto row = std::span(after).subspan(token * 64, 64);
      if (token == 1) {
        for (const float value : row) EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_TRUE(same_bits(row, std::span(before).subspan(token * 64, 64))) << token;
      }
    }
  }
}

TEST(Moe, HasAName) {
  const TestLayer layer({.experts = 8});
  EXPECT_EQ(moe_name(layer.config(Format::kInt8, Isa::kAvx2), Format::kNvfp4),
            "moe nvfp4 x int8 avx2 8 experts top-2 64 -> 2 x 32 swiglu");
}

}  // namespace
}  // namespace nibble
