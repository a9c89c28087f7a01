// Layers for the tests of W4A4 on a GPU, and Blackwell's arithmetic in double precision.
//
//   const W4A4Layer layer(w4a4_layer_case("few"));
//   CudaW4A4MoeLayer::make(gpu, layer.config(), layer.test.weights);
//   moe_error(y, layer.reference());
#pragma once

#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/quantize.h"
#include "formats/scale_layout.h"
#include "kernels/gemm/reference.h"
#include "kernels/moe/device/quantize_rows.h"
#include "kernels/moe/device/test_gpu_layer.h"

namespace nibble {

struct W4A4LayerCase {
  TestShape shape;
  bool fixed = false;  // static input scales
  Element activations = Element::kBf16;
  Element output = Element::kFp32;
  std::int64_t experts = 0;  // otherwise the shape's, whose matrices then repeat
  std::int64_t top_k = 0;
  std::vector<int> groups = {};  // tokens of each expert; otherwise as the router says
};

// Shapes with and without static scales.
inline std::vector<W4A4LayerCase> w4a4_usual_cases() {
  const TestShape one{.name = "one token"};
  const TestShape few{
      .name = "few", .tokens = 7, .experts = 8, .top_k = 3, .hidden = 96, .intermediate = 48};
  // 80 columns are 640 of tensor parallelism 8.
  const TestShape ragged{
      .name = "ragged", .tokens = 33, .experts = 5, .top_k = 5, .hidden = 144, .intermediate = 80};
  const TestShape groups{.name = "groups",
                         .tokens = 392,
                         .experts = 6,
                         .top_k = 1,
                         .hidden = 96,
                         .intermediate = 64,
                         .routing = TestRouting::kGiven};
  const TestShape one_expert{.name = "all on one expert",
                             .tokens = 150,
                             .experts = 6,
                             .top_k = 1,
                             .hidden = 256,
                             .intermediate = 128,
                             .routing = TestRouting::kOneExpert};
  const TestShape many{.name = "many tokens",
                       .tokens = 300,
                       .experts = 4,
                       .top_k = 2,
                       .hidden = 512,
                       .intermediate = 352};
  TestShape graph{
      .name = "graph", .tokens = 4, .experts = 16, .top_k = 4, .hidden = 256, .intermediate = 128};
  const std::vector<int> counts = {5, 130, 1, 0, 127, 129};
  std::vector<W4A4LayerCase> cases;
  const auto add = [&](const TestShape& shape, Element activations, Element output) {
    W4A4LayerCase what{.shape = shape, .activations = activations, .output = output};
    if (shape.name == "groups") what.groups = counts;
    cases.push_back(what);
    what.shape.name += ", static";
    what.fixed = true;
    cases.push_back(what);
  };
  add(one, Element::kBf16, Element::kFp32);
  add(few, Element::kBf16, Element::kBf16);
  add(ragged, Element::kFp16, Element::kFp32);
  add(groups, Element::kBf16, Element::kFp32);
  add(one_expert, Element::kBf16, Element::kFp32);
  add(many, Element::kBf16, Element::kFp16);
  add(graph, Element::kBf16, Element::kFp32);
  graph.name = "large graph";
  graph.tokens = 100;
  add(graph, Element::kBf16, Element::kFp32);
  return cases;
}

inline std::vector<W4A4LayerCase> w4a4_special_cases() {
  return {{.shape = {.name = "sigmoid and groups of experts",
                     .tokens = 17,
                     .experts = 16,
                     .top_k = 4,
                     .hidden = 192,
                     .intermediate = 64,
                     .routing = TestRouting::kGroups}},
          {.shape = {.name = "a layer of one expert",
                     .tokens = 9,
                     .experts = 1,
                     .top_k = 1,
                     .hidden = 16,
                     .intermediate = 16}},
          // 2,880 columns have 180 scales in NVFP4 and 90 in MXFP4: no multiple of four.
          {.shape = {.name = "gpt-oss",
                     .tokens = 5,
                     .experts = 4,
                     .top_k = 2,
                     .hidden = 2880,
                     .intermediate = 96,
                     .routing = TestRouting::kAfterTopK,
                     .format = Format::kMxfp4}},
          {.shape = {.name = "gpt-oss in nvfp4",
                     .tokens = 13,
                     .experts = 8,
                     .top_k = 4,
                     .hidden = 2880,
                     .intermediate = 48,
                     .routing = TestRouting::kAfterTopK}},
          {.shape = {.name = "gpt-oss, static",
                     .tokens = 13,
                     .experts = 8,
                     .top_k = 4,
                     .hidden = 160,
                     .intermediate = 96,
                     .routing = TestRouting::kAfterTopK},
           .fixed = true},
          {.shape = {.name = "long rows of mxfp4",
                     .tokens = 5,
                     .experts = 3,
                     .top_k = 2,
                     .hidden = 1152,
                     .intermediate = 1056,
                     .format = Format::kMxfp4}},
          {.shape = {.name = "512 experts",
                     .tokens = 3,
                     .experts = 3,
                     .top_k = 1,
                     .hidden = 2560,
                     .intermediate = 640,
                     .routing = TestRouting::kGiven},
           .experts = 512,
           .top_k = 10},
          {.shape = {.name = "1025 experts",
                     .tokens = 30,
                     .experts = 1025,
                     .top_k = 2,
                     .routing = TestRouting::kGiven},
           .fixed = true}};
}

// Every case that the tests run: their programs can be compiled before (w4a4_moe_gpu_test.cpp).
inline std::vector<W4A4LayerCase> w4a4_layer_cases() {
  std::vector<W4A4LayerCase> cases = w4a4_usual_cases();
  for (const W4A4LayerCase& each : w4a4_special_cases()) cases.push_back(each);
  return cases;
}

inline W4A4LayerCase w4a4_layer_case(std::string_view name) {
  for (const W4A4LayerCase& each : w4a4_layer_cases()) {
    if (each.shape.name == name) return each;
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

struct W4A4Layer : GpuLayer {
  bool fixed;

  explicit W4A4Layer(const W4A4LayerCase& what)
      : GpuLayer(what.shape, what.activations, what.output), fixed(what.fixed) {
    if (what.experts > 0) repeat_experts(what.experts, what.top_k);
    if (!what.groups.empty()) give(what.groups);
    // The largest of all experts counts.
    for (std::size_t expert = 1; expert < test.gate_up.size(); expert += 2) {
      *test.gate_up[expert].input_scale *= 0.75F;
      *test.down[expert - 1].input_scale *= 0.5F;
    }
  }

  CudaMoeConfig config() const {
    CudaMoeConfig config = GpuLayer::config();
    config.static_input_scales = fixed;
    return config;
  }
  bool mxfp4() const { return test.shape.format == Format::kMxfp4; }

  // What the tables of routing must be.
  ExpectedTables tables() const {
    return expected_tables({.tokens = static_cast<int>(test.shape.tokens),
                            .top_k = static_cast<int>(test.shape.top_k),
                            .experts = static_cast<int>(test.shape.experts),
                            .ids = ids,
                            .weights = weights});
  }

  // ---- Blackwell's arithmetic, stage by stage. [tokens, top_k, intermediate] before rounding:
  std::vector<double> activated() const {
    const MoeConfig arithmetic = rounding();
    const std::vector<float> x = mxfp4() ? through_mxfp4(test.x, test.shape.hidden) : test.x;
    const MoeReferenceParams params = params_of(arithmetic, x);
    return reference_activated(params, reference_gate_up(params));
  }
  // What the second product's input is made of: without static scales it has 16 bits on the way.
  std::vector<float> between(const std::vector<double>& exact) const {
    const std::vector<float> values(exact.begin(), exact.end());
    return fixed ? values : widened(narrowed(values, activations), activations);
  }
  // [tokens, hidden] of `between`, which is rounded to 4 bits here.
  std::vector<double> output_of(const std::vector<float>& values) const {
    if (mxfp4()) return output_of_rounded(through_mxfp4(values, test.shape.intermediate));
    const MoeConfig arithmetic = rounding();
    return reference_output(params_of(arithmetic, test.x), values);
  }
  // The same of what is rounded already.
  std::vector<double> output_of_rounded(const std::vector<float>& values) const {
    const MoeConfig arithmetic = test.config(Format::kFp32);
    return reference_output(params_of(arithmetic, test.x), values);
  }
  std::vector<double> reference() const { return output_of(between(activated())); }

 private:
  MoeConfig rounding() const {
    MoeConfig config = test.config(mxfp4() ? Format::kFp32 : Format::kNvfp4);
    config.static_input_scales = fixed;
    return config;
  }
  MoeReferenceParams params_of(const MoeConfig& config, std::span<const float> x) const {
    return {.config = config,
            .weights = test.weights,
            .x = x,
            .expert_ids = ids,
            .expert_weights = weights};
  }
  static std::vector<float> through_mxfp4(std::span<const float> x, std::int64_t columns) {
    const auto rows = static_cast<std::int64_t>(x.size()) / columns;
    const QuantizedBytes bytes = quantize_mxfp4(x, rows, columns);
    const std::vector<double> values = dequantized(bytes.view());
    return {values.begin(), values.end()};
  }

  // Experts beyond the first ones have their matrices with other factors.
  void repeat_experts(std::int64_t experts, std::int64_t top_k) {
    const std::size_t first = test.gate_up.size();
    for (std::size_t expert = first; expert < static_cast<std::size_t>(experts); ++expert) {
      for (std::vector<QuantizedMatrix>* list : {&test.gate_up, &test.down}) {
        QuantizedMatrix matrix = (*list)[expert % first];
        for (MatrixSegment& segment : matrix.segments) {
          segment.factor *= 1 + static_cast<float>(expert % 13) / 16;
        }
        list->push_back(matrix);
      }
    }
    test.weights.gate_up = test.gate_up;
    test.weights.down = test.down;
    test.shape.experts = experts;
    test.shape.top_k = top_k;
    Random random(31);
    ids = test.ids = random_ids(random, test.shape.tokens, experts, top_k);
    weights = test.ids_weights = gaussian(random, test.shape.tokens * top_k);
  }

  // Tokens of the experts one after the other, but not in the order of the experts.
  void give(const std::vector<int>& groups) {
    std::vector<int> left = groups;
    for (std::size_t token = 0, expert = 0; token < ids.size();
         expert = (expert + 5) % left.size()) {
      if (left[expert] == 0) continue;
      --left[expert];
      ids[token++] = static_cast<std::int32_t>(expert);
    }
  }
};

// A row of codes with its scales, out of what a kernel wrote.
inline QuantizedBytes row_of_codes(const std::vector<std::uint8_t>& codes,
                                   const std::vector<std::uint8_t>& scales,
                                   const QuantizeShape& shape, std::int64_t row) {
  const bool mxfp4 = shape.mode == QuantizeMode::kMxfp4;
  QuantizedBytes bytes{
      .format = mxfp4 ? Format::kMxfp4 : Format::kNvfp4, .rows = 1, .columns = shape.columns};
  const auto begin = codes.begin() + row * (shape.columns / 2);
  bytes.codes.assign(begin, begin + shape.columns / 2);
  for (std::int64_t at = 0; at < shape.scales(); ++at) {
    bytes.scales.push_back(
        scales[static_cast<std::size_t>(swizzled_offset(row, at, shape.scales()))]);
  }
  return bytes;
}

// What formats/quantize.h makes of a row.
inline QuantizedBytes quantized_row(std::span<const float> x, const QuantizeShape& shape,
                                    float factor) {
  if (shape.mode == QuantizeMode::kMxfp4) return quantize_mxfp4(x, 1, shape.columns);
  if (shape.mode == QuantizeMode::kNvfp4Rows) return quantize_nvfp4(x, 1, shape.columns);
  return quantize_nvfp4(x, 1, shape.columns, factor);
}

}  // namespace nibble
