// One W4A4 product on a GPU against Blackwell's arithmetic in double precision: its inputs, the
// run, the comparison.
//
//   W4A4Product product({.name = "ragged", .counts = {3}, .problem = {.n = 37, .k = 96}});
//   product.expect_right(gpu, stream, tactic);  // of any tactic: the reference is computed once
//   EXPECT_EQ(product.fault(bytes), "");
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "formats/codec.h"
#include "formats/quantize.h"
#include "formats/scale_layout.h"
#include "kernels/device/test_gpu.h"
#include "kernels/gemm/device/test_runs.h"
#include "kernels/gemm/device/test_w4a4_cases.h"
#include "kernels/gemm/device/test_w4a4_matrix.h"

namespace nibble {

class W4A4Product {
 public:
  explicit W4A4Product(W4A4Case what) : what_(std::move(what)) {
    Random random(17);
    what_.problem = problem_of(what_);
    make_weights(random);
    make_tokens(random);
  }

  const W4A4Problem& problem() const { return what_.problem; }

  // Runs and compares, as the case says. A fault names the tactic, whatever it is.
  void expect_right(const cuda::Device& gpu, cuda::Stream& stream, const W4A4Tactic& tactic,
                    const std::string& arch = "") {
    SCOPED_TRACE(what_.name + ": " + to_string(problem()) + ", " + to_string(tactic) + " " + arch);
    try {
      if (what_.quantizes) {
        expect_fused_quantization(gpu, stream, tactic);
        return;
      }
      const W4A4Kernel kernel = kernel_of(gpu, problem(), tactic, arch);
      EXPECT_EQ(fault(same_bytes_of(what_.runs, [&] { return run_once(kernel, stream); })), "");
    } catch (const std::exception& thrown) {
      ADD_FAILURE() << thrown.what();
    }
  }

  // What is wrong with the bytes of an output, or "".
  std::string fault(const std::vector<std::byte>& bytes) {
    make_references();
    double differences = 0;
    double squares = 0;
    double largest = -1;
    std::size_t worst = 0;
    for (std::size_t at = 0; at < references_.size(); ++at) {
      const double difference = got(bytes, at) - references_[at];
      differences += difference * difference;
      squares += references_[at] * references_[at];
      // A NaN stays where it is found first.
      if (std::isnan(largest) || std::abs(difference) <= largest) continue;
      largest = std::abs(difference);
      worst = at;
    }
    // Not a number is not below a limit either.
    if (references_.empty() || differences <= limit() * limit() * squares) return "";
    const auto columns = static_cast<std::size_t>(problem().columns());
    return fmt::format(
        "off by {:.3g} of the outputs' size, {:.3g} at most; slot {}, column {}: {}, not {}",
        std::sqrt(differences / squares), limit(), worst / columns, worst % columns,
        got(bytes, worst), references_[worst]);
  }

  // The bytes of an output without a fault.
  std::vector<std::byte> right_bytes() {
    make_references();
    std::vector<std::byte> bytes(output_bytes());
    for (std::size_t at = 0; at < references_.size(); ++at) {
      const auto value = static_cast<float>(references_[at]);
      if (problem().output == W4A4Output::kFp32) {
        std::memcpy(bytes.data() + at * 4, &value, 4);
      } else {
        const std::uint16_t bits =
            problem().output == W4A4Output::kFp16 ? float_to_fp16(value) : float_to_bf16(value);
        std::memcpy(bytes.data() + at * 2, &bits, 2);
      }
    }
    return bytes;
  }

  static constexpr float kOutputFactor = 0.0125F;

 private:
  bool gated() const { return what_.problem.epilogue != Epilogue::kPlain; }
  std::int64_t slots() const { return offsets_.back(); }

  // Within the memory of sm_120, whatever the chip that is here has.
  static W4A4Kernel kernel_of(const cuda::Device& gpu, const W4A4Problem& problem,
                              const W4A4Tactic& tactic, const std::string& arch = "") {
    check_ok(check_tactic(problem, tactic, kSm120Limits));
    return value_of(W4A4Kernel::make(gpu, problem, tactic, arch));
  }

  // The fused quantization gives the bits that formats/quantize.h makes of the same product's
  // floats.
  void expect_fused_quantization(const cuda::Device& gpu, cuda::Stream& stream,
                                 const W4A4Tactic& tactic) {
    const std::vector<std::byte> floats = run_once(kernel_of(gpu, problem(), tactic), stream);
    EXPECT_EQ(fault(floats), "");
    const std::vector<std::byte> codes =
        run_once(kernel_of(gpu, quantized_problem(problem()), tactic), stream);
    const auto columns = static_cast<std::size_t>(problem().columns());
    std::vector<float> row(columns);
    std::vector<std::uint8_t> expected(columns / 2);
    std::vector<std::uint8_t> scales(columns / 16);
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(slots()); ++slot) {
      std::memcpy(row.data(), floats.data() + slot * columns * 4, columns * 4);
      quantize_nvfp4_row(row, kOutputFactor, expected.data(), scales.data());
      ASSERT_EQ(std::memcmp(codes.data() + slot * columns / 2, expected.data(), columns / 2), 0)
          << "codes of slot " << slot;
      for (std::size_t block = 0; block < scales.size(); ++block) {
        const auto at = static_cast<std::size_t>(
            swizzled_offset(static_cast<std::int64_t>(slot), static_cast<std::int64_t>(block),
                            static_cast<std::int64_t>(columns / 16)));
        ASSERT_EQ(output_scales_[at], scales[block]) << "slot " << slot << " block " << block;
      }
    }
  }

  void make_weights(Random& random) {
    const W4A4Problem& problem = what_.problem;
    const std::int64_t blocks = problem.k / (problem.format == Format::kMxfp4 ? 32 : 16);
    const auto bytes = static_cast<std::size_t>(swizzled_bytes(problem.n, blocks));
    for (std::int64_t expert = 0; expert < problem.experts; ++expert) {
      weights_.push_back(random_w4a4(problem.n, problem.k, what_, random));
      codes_.insert(codes_.end(), weights_.back().codes.begin(), weights_.back().codes.end());
      std::vector<std::uint8_t> scales(bytes, what_.poison);
      put_scales(weights_.back(), 0, scales);
      scales_.insert(scales_.end(), scales.begin(), scales.end());
      // Sums of a thousand products of random signs are then about 1.
      const double size = problem.format == Format::kMxfp4 ? 1e-1 : 1e-4;
      const auto factor = static_cast<float>(size * static_cast<double>(1 + expert % 7) /
                                             std::sqrt(static_cast<double>(problem.k)));
      alpha_.push_back(factor);
      alpha_.push_back(gated() ? factor * 1.5F : factor);
    }
    if (!problem.bias) return;
    bias_.resize(static_cast<std::size_t>(problem.experts * problem.n));
    for (float& bias : bias_) bias = static_cast<float>(random.uniform()) - 0.5F;
  }

  void make_tokens(Random& random) {
    offsets_ = {0};
    for (const int count : what_.counts) offsets_.push_back(offsets_.back() + count);
    const std::int64_t rows = std::max<std::int64_t>(what_.gathered ? slots() / 2 + 3 : slots(), 1);
    tokens_ = random_w4a4(rows, what_.problem.k, what_, random);
    for (std::int64_t slot = 0; slot < slots(); ++slot) {
      row_of_.push_back(what_.gathered ? static_cast<int>((slot * 7 + 2) % rows)
                                       : static_cast<int>(slot));
      slot_weight_.push_back(static_cast<float>(random.uniform()) + 0.1F);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      factors_.push_back(what_.token_factors ? static_cast<float>(random.uniform()) + 0.5F : 1.0F);
    }
    place_token_scales();
  }

  void place_token_scales() {
    std::int64_t rows = 0;
    if (what_.rounded_scales) {
      for (const int count : what_.counts) {
        scale_rows_.push_back(static_cast<int>(rows));
        rows += (count + 127) / 128 * 128;
      }
    } else {
      rows = tokens_.rows;
    }
    token_scales_.assign(
        static_cast<std::size_t>(std::max<std::int64_t>(swizzled_bytes(rows, tokens_.blocks()), 1)),
        what_.poison);
    if (!what_.rounded_scales) {
      put_scales(tokens_, 0, token_scales_);
      return;
    }
    for (std::size_t expert = 0; expert < what_.counts.size(); ++expert) {
      for (int token = 0; token < what_.counts[expert]; ++token) {
        const int slot = offsets_[expert] + token;
        W4A4Matrix row{.rows = 1, .columns = tokens_.columns, .block = tokens_.block};
        const auto blocks = static_cast<std::size_t>(tokens_.blocks());
        const auto at = static_cast<std::size_t>(row_of_[static_cast<std::size_t>(slot)]) * blocks;
        row.scales.assign(tokens_.scales.begin() + static_cast<std::ptrdiff_t>(at),
                          tokens_.scales.begin() + static_cast<std::ptrdiff_t>(at + blocks));
        put_scales(row, scale_rows_[expert] + token, token_scales_);
      }
    }
  }

  std::size_t output_bytes() const { return output_bytes(problem().output); }
  std::size_t output_bytes(W4A4Output output) const {
    const std::int64_t values = slots() * problem().columns();
    switch (output) {
      case W4A4Output::kNvfp4:
        return static_cast<std::size_t>(values / 2);
      case W4A4Output::kFp32:
        return static_cast<std::size_t>(values * 4);
      default:
        return static_cast<std::size_t>(values * 2);
    }
  }

  // Everything that the kernel writes is NaN before, and so is what stands behind the tokens.
  std::vector<std::byte> run_once(const W4A4Kernel& kernel, cuda::Stream& stream) {
    const auto behind = [](std::vector<std::uint8_t> bytes, std::uint8_t poison) {
      bytes.resize(bytes.size() + 4096, poison);
      return bytes;
    };
    const GpuArray<std::uint8_t> weights(codes_);
    const GpuArray<std::uint8_t> weight_scales(scales_);
    const GpuArray<float> alpha(alpha_);
    const GpuArray<float> bias(bias_);
    const GpuArray<std::uint8_t> tokens(behind(tokens_.codes, 0xff));
    const GpuArray<std::uint8_t> token_scales(behind(token_scales_, what_.poison));
    const GpuArray<float> factors(factors_);
    const GpuArray<int> offsets(offsets_);
    const GpuArray<int> row_of(row_of_);
    const GpuArray<int> scale_rows(scale_rows_);
    const GpuArray<float> slot_weight(slot_weight_);
    const std::size_t of_output = output_bytes(kernel.problem().output);
    const auto output = GpuArray<std::byte>::poisoned(of_output + 64);
    const bool fp4 = kernel.problem().output == W4A4Output::kNvfp4;
    const auto output_scales = GpuArray<std::uint8_t>::poisoned(
        fp4 ? static_cast<std::size_t>(swizzled_bytes(slots(), problem().columns() / 16)) : 0);
    const auto partials = GpuArray<float>::poisoned(kernel.partial_bytes() / sizeof(float));
    const GpuArray<std::uint32_t> flags(
        std::vector<std::uint32_t>(static_cast<std::size_t>(kernel.grid()), 0));
    const bool dense = what_.counts.size() == 1;
    check_ok(
        kernel.enqueue(stream, {.weights = weights.data(),
                                .weight_scales = weight_scales.data(),
                                .alpha = alpha.data(),
                                .bias = problem().bias ? bias.data() : nullptr,
                                .tokens = tokens.data(),
                                .token_scales = token_scales.data(),
                                .token_factor = what_.token_factors ? factors.data() : nullptr,
                                .offsets = dense ? nullptr : offsets.data(),
                                .row_of = what_.gathered ? row_of.data() : nullptr,
                                .scale_rows = what_.rounded_scales ? scale_rows.data() : nullptr,
                                .slot_weight = gated() ? nullptr : slot_weight.data(),
                                .output = output.data(),
                                .output_scales = fp4 ? output_scales.data() : nullptr,
                                .output_factor = kOutputFactor,
                                .rows = dense ? offsets_.back() : 0,
                                .partials = partials.data(),
                                .flags = flags.data(),
                                .swiglu_alpha = 1.702F,
                                .swiglu_limit = 7}));
    check_ok(stream.synchronize());
    std::vector<std::byte> bytes = output.read();
    for (std::size_t at = of_output; at < bytes.size(); ++at) {
      EXPECT_EQ(bytes[at], std::byte{0xff}) << "written behind the output";
    }
    bytes.resize(of_output);
    if (fp4) output_scales_ = output_scales.read();
    return bytes;
  }

  double product(std::size_t expert, std::int64_t row, std::int64_t slot) const {
    const std::int64_t token = row_of_[static_cast<std::size_t>(slot)];
    const std::int64_t k = problem().k;
    const float* weights = weights_[expert].values.data() + row * k;
    const float* values = tokens_.values.data() + token * k;
    double sum = 0;
    for (std::int64_t column = 0; column < k; ++column) {
      sum += static_cast<double>(weights[column]) * static_cast<double>(values[column]);
    }
    const bool up = gated() && (row < problem().n / 2) == problem().up_first;
    sum *= static_cast<double>(alpha_[2 * expert + (up ? 1 : 0)]) *
           static_cast<double>(factors_[static_cast<std::size_t>(token)]);
    if (problem().bias) {
      sum += static_cast<double>(
          bias_[expert * static_cast<std::size_t>(problem().n) + static_cast<std::size_t>(row)]);
    }
    return sum;
  }

  double expected(std::size_t expert, std::int64_t slot, std::int64_t column) const {
    if (!gated()) {
      return product(expert, column, slot) *
             static_cast<double>(slot_weight_[static_cast<std::size_t>(slot)]);
    }
    const std::int64_t half = problem().n / 2;
    double gate = product(expert, column + (problem().up_first ? half : 0), slot);
    double up = product(expert, column + (problem().up_first ? 0 : half), slot);
    if (problem().epilogue == Epilogue::kSwiGlu) return gate / (1 + std::exp(-gate)) * up;
    gate = std::min(gate, 7.0);
    up = std::min(std::max(up, -7.0), 7.0);
    return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
  }

  double got(const std::vector<std::byte>& bytes, std::size_t at) const {
    if (problem().output == W4A4Output::kFp32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at * 4, 4);
      return static_cast<double>(value);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + at * 2, 2);
    return static_cast<double>(problem().output == W4A4Output::kFp16 ? fp16_to_float(bits)
                                                                     : bf16_to_float(bits));
  }

  // Up to the order of fp32 sums, of which the largest terms are far above their sum: 2e-5; and up
  // to the rounding of 16-bit outputs: 2^-9 of a value for bf16, and the quick exponential.
  double limit() const {
    if (problem().output == W4A4Output::kFp32) return 2e-5;
    return problem().output == W4A4Output::kFp16 ? 5e-4 : 4e-3;
  }

  // Expected outputs [slots, columns]: the same for all tactics.
  void make_references() {
    if (!references_.empty()) return;
    for (std::size_t expert = 0; expert < what_.counts.size(); ++expert) {
      for (std::int64_t slot = offsets_[expert]; slot < offsets_[expert + 1]; ++slot) {
        for (std::int64_t column = 0; column < problem().columns(); ++column) {
          references_.push_back(expected(expert, slot, column));
        }
      }
    }
  }

  W4A4Case what_;
  std::vector<double> references_;
  std::vector<W4A4Matrix> weights_;
  W4A4Matrix tokens_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  std::vector<std::uint8_t> token_scales_;
  std::vector<std::uint8_t> output_scales_;
  std::vector<float> alpha_;
  std::vector<float> bias_;
  std::vector<float> factors_;
  std::vector<float> slot_weight_;
  std::vector<int> offsets_;
  std::vector<int> row_of_;
  std::vector<int> scale_rows_;
};

}  // namespace nibble
