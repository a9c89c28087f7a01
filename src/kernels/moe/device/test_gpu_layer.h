// Layers for the tests on a GPU: a TestLayer of the CPU's tests, and its routing.
//
//   const GpuLayer layer(shape, Element::kBf16, Element::kBf16);
//   CudaMoeLayer::make(gpu, layer.config(), layer.test.weights);
//   moe_error(y, layer.reference());
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/codec.h"
#include "kernels/moe/device/moe_cuda.h"
#include "kernels/moe/device/test_routing.h"
#include "kernels/moe/test_layer.h"

namespace nibble {

inline std::vector<TestShape> layer_shapes() {
  return {
      {.name = "one token"},
      {.name = "few", .tokens = 7, .experts = 8, .top_k = 3, .hidden = 96, .intermediate = 48},
      {.name = "ragged", .tokens = 33, .experts = 5, .top_k = 5, .hidden = 130, .intermediate = 70},
      {.name = "tiny", .tokens = 3, .experts = 3, .top_k = 1, .hidden = 2, .intermediate = 2},
      {.name = "all on one expert",
       .tokens = 150,
       .experts = 6,
       .top_k = 1,
       .hidden = 256,
       .intermediate = 128,
       .routing = TestRouting::kOneExpert},
      {.name = "groups",
       .tokens = 17,
       .experts = 16,
       .top_k = 4,
       .hidden = 192,
       .intermediate = 64,
       .routing = TestRouting::kGroups},
      {.name = "gpt-oss, mxfp4",
       .tokens = 13,
       .experts = 8,
       .top_k = 4,
       .hidden = 160,
       .intermediate = 96,
       .routing = TestRouting::kAfterTopK,
       .format = Format::kMxfp4},
      {.name = "gpt-oss, nvfp4, ragged",
       .tokens = 65,
       .experts = 9,
       .top_k = 2,
       .hidden = 90,
       .intermediate = 46,
       .routing = TestRouting::kAfterTopK},
      {.name = "one expert", .tokens = 9, .experts = 1, .top_k = 1},
      {.name = "512 experts", .tokens = 40, .experts = 512, .top_k = 10},
      {.name = "1025 experts",
       .tokens = 30,
       .experts = 1025,
       .top_k = 2,
       .routing = TestRouting::kGiven},
      {.name = "many tokens",
       .tokens = 600,
       .experts = 8,
       .top_k = 2,
       .hidden = 512,
       .intermediate = 256},
      {.name = "16 tokens on one expert",
       .tokens = 16,
       .experts = 6,
       .top_k = 1,
       .hidden = 192,
       .intermediate = 96,
       .routing = TestRouting::kOneExpert},
      {.name = "most choices", .tokens = 16, .experts = 40, .top_k = 32},
      {.name = "more rows than an SM takes at once",
       .tokens = 3,
       .experts = 4,
       .top_k = 3,
       .hidden = 8208,
       .intermediate = 160},
      {.name = "long rows",
       .tokens = 5,
       .experts = 3,
       .top_k = 2,
       .hidden = 2112,
       .intermediate = 1088,
       .format = Format::kMxfp4},
  };
}

inline std::vector<std::uint16_t> narrowed(const std::vector<float>& values, Element element) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) {
    bits.push_back(element == Element::kBf16 ? float_to_bf16(value) : float_to_fp16(value));
  }
  return bits;
}
inline std::vector<float> widened(const std::vector<std::uint16_t>& bits, Element element) {
  std::vector<float> values;
  for (const std::uint16_t each : bits) {
    values.push_back(element == Element::kBf16 ? bf16_to_float(each) : fp16_to_float(each));
  }
  return values;
}

// A layer of the tests, the same on a GPU, and what goes into a call.
struct GpuLayer {
  TestLayer test;
  Element activations;
  Element output;
  RoutingInput routing;
  std::vector<std::int32_t> ids;
  std::vector<float> weights;

  GpuLayer(const TestShape& shape, Element x_element, Element y_element)
      : test(shape), activations(x_element), output(y_element) {
    test.x = widened(narrowed(test.x, activations), activations);
    routing.config = test.config(Format::kBf16).router;
    routing.tokens = static_cast<int>(shape.tokens);
    Random random(12);
    routing.logits = gaussian(random, shape.tokens * shape.experts);
    routing.linear_bias.assign(test.weights.router_bias.begin(), test.weights.router_bias.end());
    choose();
  }

  void choose() {
    ids = test.ids;
    weights = test.ids_weights;
    if (test.ids_given()) return;
    Routed routed = route_on_cpu(routing);
    ids = std::move(routed.ids);
    weights = std::move(routed.weights);
  }

  CudaMoeConfig config() const {
    const MoeConfig cpu = test.config(Format::kBf16);
    return {.hidden = cpu.hidden,
            .intermediate = cpu.intermediate,
            .router = cpu.router,
            .activation = cpu.activation,
            .activations = activations,
            .output = output};
  }

  // fp16's rounding is an eighth of bf16's, and not in the reference.
  std::vector<double> reference() const {
    const MoeConfig cpu =
        test.config(activations == Element::kBf16 ? Format::kBf16 : Format::kFp32);
    return moe_reference({.config = cpu,
                          .weights = test.weights,
                          .x = test.x,
                          .expert_ids = ids,
                          .expert_weights = weights});
  }
};

}  // namespace nibble
