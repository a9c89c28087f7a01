#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "kernels/moe/test_layer.h"

namespace nibble {
namespace {

// What MoeLayer::make says after `change`; empty when it refuses nothing.
std::string refusal(const std::function<void(TestLayer&, MoeConfig&)>& change,
                    Format activations = Format::kNvfp4) {
  TestLayer layer({.routing = TestRouting::kAfterTopK});
  MoeConfig config = layer.config(activations);
  change(layer, config);
  ThreadPool pool(1);
  const Result<MoeLayer> made = MoeLayer::make(config, layer.weights, pool);
  return made.ok() ? "" : made.error().message;
}

TEST(MoeLayer, TakesWhatFits) {
  EXPECT_EQ(refusal([](TestLayer&, MoeConfig&) {}), "");
}

TEST(MoeLayer, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(refusal([](TestLayer&, MoeConfig& config) { config.hidden = 65; }),
            "gate_up of expert 0 is 64 x 64; the layer's sizes want 64 x 65");
  EXPECT_EQ(refusal([](TestLayer& layer, MoeConfig&) { layer.down[2].rows = 63; }),
            "down of expert 2 is 63 x 32; the layer's sizes want 64 x 32");
  for (const std::int64_t bad :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 25,
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_NE(refusal([bad](TestLayer&, MoeConfig& config) { config.hidden = bad; }), "");
    EXPECT_NE(refusal([bad](TestLayer&, MoeConfig& config) { config.intermediate = bad; }), "");
    EXPECT_NE(refusal([bad](TestLayer&, MoeConfig& config) { config.router.experts = bad; }), "");
    EXPECT_NE(refusal([bad](TestLayer&, MoeConfig& config) { config.router.top_k = bad; }), "");
  }
  EXPECT_NE(refusal([](TestLayer&, MoeConfig& config) { config.router.experts = 5; }), "");
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.gate_up = {}; }), "");
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) {
              layer.weights.down = layer.weights.down.first(3);
            }),
            "");
}

TEST(MoeLayer, RefusesBytesThatAreMissing) {
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) {
              layer.gate_up[1].codes = layer.gate_up[1].codes.first(9);
            }).find("gate_up: "),
            std::string::npos);
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) { layer.down[1].scales = {}; }), "");
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) {
              layer.weights.router->codes = layer.weights.router->codes.first(3);
            }),
            "");
}

TEST(MoeLayer, RefusesARouterThatDoesNotFit) {
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.router->rows = 3; }), "");
  EXPECT_EQ(
      refusal([](TestLayer& layer, MoeConfig&) { layer.weights.router->format = Format::kNvfp4; }),
      "the router's weights are nvfp4 4 x 64; the layer's sizes want bf16 4 x 64");
  EXPECT_EQ(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.router.reset(); }),
            "the router has a bias but no weights");
  EXPECT_EQ(refusal([](TestLayer& layer, MoeConfig&) {
              layer.weights.router.reset();
              layer.weights.router_bias = {};
            }),
            "");
}

TEST(MoeLayer, RefusesBiasesThatDoNotFit) {
  static const float kBroken[] = {0, 1, std::nanf(""), 3};
  EXPECT_EQ(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.router_bias = kBroken; }),
            "value 2 of the router's bias is nan, not a finite number");
  EXPECT_EQ(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.down_bias = kBroken; }),
            "down's bias has 4 values; the layer's sizes want 256");
  EXPECT_NE(refusal([](TestLayer& layer, MoeConfig&) { layer.weights.gate_up_bias = kBroken; }),
            "");
}

TEST(MoeLayer, RefusesInputScalesThatAreMissingOrWrong) {
  const auto with_scales = [](auto change) {
    return refusal([change](TestLayer& layer, MoeConfig& config) {
      config.static_input_scales = true;
      change(layer);
    });
  };
  EXPECT_EQ(with_scales([](TestLayer&) {}), "");
  EXPECT_EQ(with_scales([](TestLayer& layer) { layer.down[3].input_scale.reset(); }),
            "down of expert 3 has no input scale; choose scales by row, or bf16 activations");
  for (const float bad : {0.0F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(with_scales([bad](TestLayer& layer) { layer.gate_up[0].input_scale = bad; }), "");
  }
  EXPECT_NE(refusal([](TestLayer&, MoeConfig& config) { config.static_input_scales = true; },
                    Format::kInt8),
            "");
}

TEST(MoeLayer, RefusesAnActivationThatIsNone) {
  for (const float bad : {0.0F, -7.0F, std::nanf("")}) {
    EXPECT_NE(refusal([bad](TestLayer&, MoeConfig& config) { config.activation.limit = bad; }), "");
  }
  EXPECT_NE(refusal([](TestLayer&, MoeConfig& config) { config.activation.alpha = HUGE_VALF; }),
            "");
}

TEST(MoeWorkspace, RefusesSizesAndFormatsOutOfRange) {
  const TestLayer layer({.experts = 4});
  ThreadPool pool(1);
  const Result<MoeLayer> packed = MoeLayer::make(layer.config(Format::kNvfp4), layer.weights, pool);
  ASSERT_TRUE(packed.ok());
  for (const std::int64_t bad :
       {std::int64_t{-1}, std::int64_t{1} << 24, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_FALSE(MoeWorkspace::make(*packed, bad).ok()) << bad;
  }
  EXPECT_TRUE(MoeWorkspace::make(*packed, 0).ok());
}

TEST(MoeLayer, RefusesActivationFormatsThatItHasNot) {
  for (const Format format : {Format::kFp16, Format::kFp8, Format::kMxfp4}) {
    EXPECT_NE(refusal([format](TestLayer&, MoeConfig& config) { config.activations = format; }),
              "");
  }
  // bf16 experts take fp32 and bf16 activations only.
  const TestLayer layer({.format = Format::kBf16});
  ThreadPool pool(1);
  EXPECT_FALSE(MoeLayer::make(layer.config(Format::kInt8), layer.weights, pool).ok());
  EXPECT_TRUE(MoeLayer::make(layer.config(Format::kBf16), layer.weights, pool).ok());
  EXPECT_TRUE(MoeLayer::make(layer.config(Format::kFp32), layer.weights, pool).ok());
}

}  // namespace
}  // namespace nibble
