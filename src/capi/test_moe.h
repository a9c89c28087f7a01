// A layer of experts of the tests: a checkpoint's tensors, and the layer in double precision.
//
//   const MoeInput input({.tokens = 5, .experts = 4, .top_k = 2, .hidden = 64, .intermediate =
//   32}); const std::vector<double> y = input.expected(); input.expect_near(out);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "capi/test_fp4.h"

namespace nibble::capi {

struct MoeInputShape {
  std::int64_t tokens = 0;
  std::int32_t experts = 0;
  std::int32_t top_k = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  bool mxfp4 = false;
  bool clamped = false;
  bool biases = false;
  bool fp4_operand = false;
  bool static_scales = false;
  std::int32_t row_order = NIBBLE_GATE_UP;
  std::int32_t scale_layout = NIBBLE_SCALES_ROW_MAJOR;
};

// The nearest of `values`, which ascend from 0.
inline double nearest(double value, const std::vector<double>& values) {
  double best = values.front();
  for (const double each : values) {
    if (std::abs(each - value) < std::abs(best - value)) best = each;
  }
  return best;
}

// A row in NVFP4, as Blackwell's path takes it: what its codes, scales and factor stand for.
inline std::vector<double> as_nvfp4(const std::vector<double>& row, double factor) {
  static const std::vector<double> kCodes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<double> scales;
  for (int exponent = -6; exponent <= 8; ++exponent) {
    for (int eighth = exponent == -6 ? -8 : 0; eighth < 8; ++eighth) {
      scales.push_back(std::ldexp(1 + eighth / 8.0, exponent));
    }
  }
  scales.pop_back();  // 480 is not a number in e4m3
  if (factor == 0) {
    for (const double value : row) factor = std::max(factor, std::abs(value) / 2688);
  }
  std::vector<double> out;
  for (std::size_t begin = 0; begin < row.size(); begin += 16) {
    const std::size_t end = std::min(begin + 16, row.size());
    double largest = 0;
    for (std::size_t at = begin; at < end; ++at) largest = std::max(largest, std::abs(row[at]));
    const double unit = nearest(largest / 6 / factor, scales) * factor;
    for (std::size_t at = begin; at < end; ++at) {
      const double magnitude = unit > 0 ? nearest(std::abs(row[at]) / unit, kCodes) * unit : 0;
      out.push_back(std::copysign(magnitude, row[at]));
    }
  }
  return out;
}

struct MoeInput {
  MoeInputShape shape;
  std::vector<Fp4Matrix> w13;  // in the given order of rows
  std::vector<Fp4Matrix> w2;
  std::vector<std::uint8_t> w13_codes, w13_scales, w2_codes, w2_scales;
  std::vector<float> w13_factor, w2_factor, w13_bias, w2_bias;
  std::vector<float> w13_input_scale, w2_input_scale;
  std::vector<float> x, shared, weights;
  std::vector<std::int32_t> ids;

  explicit MoeInput(const MoeInputShape& given) : shape(given) {
    Random random(21);
    const std::int64_t both = 2 * shape.intermediate;
    // Sums of a few hundred products of size 10 become values of size 1.
    const auto factor = [&random](std::int64_t columns) {
      return static_cast<float>((0.5 + random.uniform()) / 10 /
                                std::sqrt(static_cast<double>(columns)));
    };
    for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
      w13.push_back(random_fp4(random, {both, shape.hidden, shape.mxfp4}));
      w2.push_back(random_fp4(random, {shape.hidden, shape.intermediate, shape.mxfp4}));
      append(w13_codes, w13.back().codes);
      append(w2_codes, w2.back().codes);
      const bool tiles = shape.scale_layout == NIBBLE_SCALES_128X4;
      append(w13_scales, tiles ? swizzled(w13.back(), 0xff) : w13.back().scales);
      append(w2_scales, tiles ? swizzled(w2.back(), 0x7f) : w2.back().scales);
      w13_factor.push_back(factor(shape.hidden));
      w13_factor.push_back(factor(shape.hidden));
      w2_factor.push_back(factor(shape.intermediate));
    }
    if (shape.biases) {
      w13_bias = random_bf16(random, shape.experts * both);
      w2_bias = random_bf16(random, shape.experts * shape.hidden);
    }
    for (std::int32_t expert = 0; expert < shape.experts; ++expert) {
      // Of values up to 4 and 6; the first expert's is the largest.
      const float smaller = 1 + static_cast<float>(expert) / 8;
      w13_input_scale.push_back(4.0F / 2688 / smaller);
      w2_input_scale.push_back(6.0F / 2688 / smaller);
    }
    x = random_bf16(random, shape.tokens * shape.hidden);
    shared = random_bf16(random, shape.tokens * shape.hidden);
    for (std::int64_t token = 0; token < shape.tokens; ++token) {
      const auto first = static_cast<std::int32_t>(random.below(shape.experts));
      for (std::int32_t choice = 0; choice < shape.top_k; ++choice) {
        ids.push_back((first + choice) % shape.experts);
        weights.push_back(0.25F + static_cast<float>(random.uniform()));
      }
    }
  }

  nibble_moe_desc desc(std::int32_t dtype) const {
    auto made = sized<nibble_moe_desc>();
    made.format = shape.mxfp4 ? NIBBLE_MXFP4 : NIBBLE_NVFP4;
    made.dtype = dtype;
    made.activation = shape.clamped ? NIBBLE_CLAMPED_SWIGLU : NIBBLE_SWIGLU;
    made.operand = shape.fp4_operand ? NIBBLE_OPERAND_FP4 : NIBBLE_OPERAND_16;
    made.experts = shape.experts;
    made.top_k = shape.top_k;
    made.hidden = shape.hidden;
    made.intermediate = shape.intermediate;
    return made;
  }
  nibble_moe_weights tensors() const {
    auto made = sized<nibble_moe_weights>();
    made.scale_layout = shape.scale_layout;
    made.row_order = shape.row_order;
    made.w13 = w13_codes.data();
    made.w13_scale = w13_scales.data();
    made.w13_factor = w13_factor.data();
    made.w13_bias = shape.biases ? w13_bias.data() : nullptr;
    made.w2 = w2_codes.data();
    made.w2_scale = w2_scales.data();
    made.w2_factor = w2_factor.data();
    made.w2_bias = shape.biases ? w2_bias.data() : nullptr;
    made.w13_input_scale = shape.static_scales ? w13_input_scale.data() : nullptr;
    made.w2_input_scale = shape.static_scales ? w2_input_scale.data() : nullptr;
    return made;
  }

  // Row `row` of gate (up = 0) or up (1) of w13.
  std::int64_t row_of(std::int64_t row, std::int64_t up) const {
    if (shape.row_order == NIBBLE_UP_GATE) return row + (1 - up) * shape.intermediate;
    if (shape.row_order == NIBBLE_INTERLEAVED) return 2 * row + up;
    return row + up * shape.intermediate;
  }
  // What a product takes for a row.
  std::vector<double> operand(const std::vector<double>& row, float input_scale) const {
    if (!shape.fp4_operand) return row;
    return as_nvfp4(row, shape.static_scales ? static_cast<double>(input_scale) : 0);
  }
  std::vector<double> token_operand(std::int64_t token) const {
    const auto begin = x.begin() + token * shape.hidden;
    return operand(std::vector<double>(begin, begin + shape.hidden), w13_input_scale.front());
  }
  double half(const std::vector<double>& token, std::int32_t expert, std::int64_t row,
              std::int64_t up) const {
    const std::int64_t at = row_of(row, up);
    const auto e = static_cast<std::size_t>(expert);
    double sum = 0;
    for (std::int64_t column = 0; column < shape.hidden; ++column) {
      sum += token[static_cast<std::size_t>(column)] * w13[e].value(at, column);
    }
    sum *= static_cast<double>(w13_factor[2 * e + static_cast<std::size_t>(up)]);
    if (!shape.biases) return sum;
    return sum + static_cast<double>(w13_bias[e * static_cast<std::size_t>(2 * shape.intermediate) +
                                              static_cast<std::size_t>(at)]);
  }
  double activated(double gate, double up) const {
    if (!shape.clamped) return gate / (1 + std::exp(-gate)) * up;
    gate = std::min(gate, 7.0);
    up = std::clamp(up, -7.0, 7.0);
    return (up + 1) * gate / (1 + std::exp(-1.702 * gate));
  }
  // [tokens, hidden], with `shared` added.
  std::vector<double> expected() const {
    std::vector<double> y;
    for (const float value : shared) y.push_back(static_cast<double>(value));
    for (std::size_t choice = 0; choice < ids.size(); ++choice) {
      const auto token = static_cast<std::int64_t>(choice) / shape.top_k;
      const std::int32_t expert = ids[choice];
      if (expert < 0 || expert >= shape.experts) continue;
      const auto e = static_cast<std::size_t>(expert);
      const std::vector<double> taken = token_operand(token);
      std::vector<double> middle;
      for (std::int64_t row = 0; row < shape.intermediate; ++row) {
        middle.push_back(activated(half(taken, expert, row, 0), half(taken, expert, row, 1)));
      }
      middle = operand(middle, w2_input_scale.front());
      for (std::int64_t row = 0; row < shape.hidden; ++row) {
        double sum = 0;
        for (std::size_t at = 0; at < middle.size(); ++at) {
          sum += middle[at] * w2[e].value(row, static_cast<std::int64_t>(at));
        }
        sum *= static_cast<double>(w2_factor[e]);
        const auto h = static_cast<std::size_t>(shape.hidden);
        if (shape.biases) {
          sum += static_cast<double>(w2_bias[e * h + static_cast<std::size_t>(row)]);
        }
        y[static_cast<std::size_t>(token) * h + static_cast<std::size_t>(row)] +=
            static_cast<double>(weights[choice]) * sum;
      }
    }
    return y;
  }

  // Root of the squared differences over that of the squares: a factor or a row in another's place
  // shows as 2^-4 and more.
  void expect_near(const std::vector<float>& out, double limit) const {
    const std::vector<double> y = expected();
    ASSERT_EQ(out.size(), y.size());
    double difference = 0;
    double size = 0;
    for (std::size_t at = 0; at < y.size(); ++at) {
      difference += std::pow(static_cast<double>(out[at]) - y[at], 2);
      size += y[at] * y[at];
    }
    EXPECT_GT(size, 0);
    EXPECT_LE(std::sqrt(difference / size), limit);  // false for NaN
  }
};

}  // namespace nibble::capi
