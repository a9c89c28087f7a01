// A layer with random weights, for the tests: canonical matrices with their bytes, and one call.
//
//   const TestLayer layer({.tokens = 3, .experts = 8, .top_k = 2, .hidden = 96,
//                          .intermediate = 48});
//   const std::vector<float> y = layer.run(layer.config(Format::kInt8, isa), 2);
#pragma once

#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "formats/quantize.h"
#include "kernels/moe/moe.h"
#include "kernels/moe/reference.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {

enum class TestRouting {
  kSoftmax,    // Qwen3
  kGroups,     // DeepSeek-V3: sigmoid, correction bias, 4 groups
  kAfterTopK,  // gpt-oss, with all of its biases and its activation
  kGiven,      // ids and weights from outside
  kOneExpert,  // the same, every token on the last expert
};

struct TestShape {
  std::string name = {};
  std::int64_t tokens = 1;
  std::int64_t experts = 4;
  std::int64_t top_k = 2;
  std::int64_t hidden = 64;
  std::int64_t intermediate = 32;
  TestRouting routing = TestRouting::kSoftmax;
  Format format = Format::kNvfp4;
};

// Bytes of one expert's gate and up, each with a factor of its own, or of another matrix.
struct TestMatrix {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  QuantizedMatrix matrix = {};

  void append(const QuantizedBytes& bytes) {
    matrix.format = bytes.format;
    if (bytes.format == Format::kNvfp4) matrix.segments.push_back({matrix.rows, bytes.factor});
    matrix.rows += bytes.rows;
    matrix.columns = bytes.columns;
    codes.insert(codes.end(), bytes.codes.begin(), bytes.codes.end());
    scales.insert(scales.end(), bytes.scales.begin(), bytes.scales.end());
  }
  QuantizedMatrix view() const {
    QuantizedMatrix result = matrix;
    result.codes = codes;
    result.scales = scales;
    return result;
  }
};

class TestLayer {
 public:
  TestShape shape;
  std::vector<float> x;            // [tokens, hidden]
  std::vector<std::int32_t> ids;   // kGiven, kOneExpert
  std::vector<float> ids_weights;  // kGiven, kOneExpert
  std::vector<float> shared = {};  // [tokens, hidden], or empty
  std::vector<QuantizedMatrix> gate_up;
  std::vector<QuantizedMatrix> down;
  MoeWeights weights;

  explicit TestLayer(const TestShape& some_shape, std::uint64_t seed = 1)
      : shape(some_shape), random_(seed) {
    const std::int64_t experts = shape.experts;
    const double gate_up_size = 1 / std::sqrt(static_cast<double>(shape.hidden));
    const double down_size = 1 / std::sqrt(static_cast<double>(shape.intermediate));
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      // Up has weights, and so a factor, of another size than gate.
      TestMatrix both;
      both.append(random_matrix(shape.intermediate, shape.hidden, 2 * gate_up_size));
      both.append(random_matrix(shape.intermediate, shape.hidden, gate_up_size / 2));
      matrices_.push_back(both);
      TestMatrix one;
      one.append(random_matrix(shape.hidden, shape.intermediate, down_size));
      matrices_.push_back(one);
    }
    for (std::size_t at = 0; at < matrices_.size(); at += 2) {
      gate_up.push_back(matrices_[at].view());
      down.push_back(matrices_[at + 1].view());
      gate_up.back().input_scale = 4.0F / kNvfp4Largest;
      down.back().input_scale = 8.0F / kNvfp4Largest;
    }
    weights.gate_up = gate_up;
    weights.down = down;
    add_router();
    x = gaussian(random_, shape.tokens * shape.hidden);
  }
  TestLayer(const TestLayer&) = delete;
  TestLayer& operator=(const TestLayer&) = delete;

  MoeConfig config(Format activations, Isa isa = best_isa()) const {
    MoeConfig config{.hidden = shape.hidden,
                     .intermediate = shape.intermediate,
                     .router = {.experts = shape.experts, .top_k = shape.top_k},
                     .activations = activations,
                     .isa = isa};
    if (shape.routing == TestRouting::kSoftmax) config.router.renormalise = true;
    if (shape.routing == TestRouting::kAfterTopK) {
      config.router.softmax_after_top_k = true;
      config.activation.kind = ActivationKind::kClampedSwiGlu;
    }
    if (shape.routing == TestRouting::kGroups) {
      config.router.kind = RouterKind::kSigmoid;
      config.router.groups = 4;
      config.router.top_groups = 2;
      config.router.renormalise = true;
      config.router.scaling_factor = 2.5F;
      config.router.correction_bias = correction_bias_;
    }
    return config;
  }

  bool ids_given() const { return !ids.empty(); }

  struct Output {
    std::vector<float> y;
    MoeWorkspace workspace;
  };

  // Of the layer's own tokens.
  Output call(const MoeConfig& config, int threads = 1) const {
    ThreadPool pool(threads);
    Result<MoeLayer> layer = MoeLayer::make(config, weights, pool);
    EXPECT_TRUE(layer.ok()) << layer.error().message;
    Result<MoeWorkspace> workspace = MoeWorkspace::make(*layer, shape.tokens);
    EXPECT_TRUE(workspace.ok()) << workspace.error().message;
    std::vector<float> y(x.size(), -1e30F);
    moe({.layer = *layer,
         .workspace = *workspace,
         .x = x,
         .expert_ids = ids,
         .expert_weights = ids_weights,
         .shared = shared,
         .y = y},
        pool);
    return {std::move(y), std::move(*workspace)};
  }
  std::vector<float> run(const MoeConfig& config, int threads = 1) const {
    return call(config, threads).y;
  }

  MoeReferenceParams reference(const MoeConfig& config, const MoeWorkspace& workspace) const {
    return {.config = config,
            .weights = weights,
            .x = x,
            .expert_ids = workspace.expert_ids(),
            .expert_weights = workspace.expert_weights()};
  }

 private:
  QuantizedBytes random_matrix(std::int64_t rows, std::int64_t columns, double size) {
    const std::vector<float> values = gaussian(random_, rows * columns, size);
    if (shape.format == Format::kMxfp4) return quantize_mxfp4(values, rows, columns);
    if (shape.format == Format::kBf16) return quantize_bf16(values, rows, columns);
    return quantize_nvfp4(values, rows, columns);
  }

  void add_router() {
    const std::int64_t experts = shape.experts;
    if (shape.routing == TestRouting::kGiven || shape.routing == TestRouting::kOneExpert) {
      ids = random_ids(random_, shape.tokens, experts, shape.top_k);
      if (shape.routing == TestRouting::kOneExpert) {
        ids.assign(ids.size(), static_cast<std::int32_t>(experts - 1));
      }
      ids_weights = gaussian(random_, static_cast<std::int64_t>(ids.size()));
      return;
    }
    const double size = 1 / std::sqrt(static_cast<double>(shape.hidden));
    router_ = quantize_bf16(gaussian(random_, experts * shape.hidden, size), experts, shape.hidden);
    weights.router = router_.view();
    if (shape.routing == TestRouting::kGroups) correction_bias_ = gaussian(random_, experts, 0.2);
    if (shape.routing != TestRouting::kAfterTopK) return;
    router_bias_ = gaussian(random_, experts);
    gate_up_bias_ = gaussian(random_, experts * 2 * shape.intermediate, 3);
    down_bias_ = gaussian(random_, experts * shape.hidden);
    weights.router_bias = router_bias_;
    weights.gate_up_bias = gate_up_bias_;
    weights.down_bias = down_bias_;
  }

  Random random_;
  std::vector<TestMatrix> matrices_;
  QuantizedBytes router_;
  std::vector<float> correction_bias_;
  std::vector<float> router_bias_;
  std::vector<float> gate_up_bias_;
  std::vector<float> down_bias_;
};

}  // namespace nibble
