// One product on a GPU against double precision: its inputs, the run, the comparison.
//
//   Product product(gpu, {"ragged", {3}, {.n = 37, .k = 90}});
//   product.expect_right(gpu, stream, tactic);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/test_gpu.h"
#include "kernels/gemm/device/prepack.h"
#include "kernels/gemm/device/test_runs.h"
#include "kernels/gemm/device/test_tiles.h"
#include "kernels/gemm/device/w4a16.h"

namespace nibble {

// bf16's rounding of the result is 2^-9 at most, 1.7e-3 on average over a binade; fp32 sums add
// next to nothing. What the issue of these kernels allows is 4e-3.
inline constexpr double kProductLimit = 4e-3;

struct ProductCase {
  std::string name;
  std::vector<int> counts;  // tokens of each expert
  W4A16Problem problem;     // its experts follow from the counts
  float scale = 1;          // of the activations
};

inline std::uint16_t half_bits(float value, Element element) {
  return element == Element::kFp16 ? float_to_fp16(value) : float_to_bf16(value);
}
inline float half_value(std::uint16_t bits, Element element) {
  return element == Element::kFp16 ? fp16_to_float(bits) : bf16_to_float(bits);
}

// Inputs of one product, on host and device, and its reference.
class Product {
 public:
  Product(const cuda::Device& gpu, ProductCase what) : what_(std::move(what)) {
    W4A16Problem& problem = what_.problem;
    problem.experts = static_cast<std::int64_t>(what_.counts.size());
    const bool gated = problem.mode != W4A16Mode::kPlain;
    matrices_ = random_matrices({.experts = problem.experts,
                                 .rows = problem.n,
                                 .columns = problem.k,
                                 .order = gated ? RowOrder::kGateUp : RowOrder::kPlain,
                                 .mxfp4 = problem.format == Format::kMxfp4},
                                11);
    if (matrices_.mxfp4) narrow_scales();
    set_factors();
    weights_ = value_of(TiledWeights::pack(gpu, views_, matrices_.order));
    make_tokens();
  }

  const W4A16Problem& problem() const { return what_.problem; }

  // Runs and compares; `runs` times, which must give the same bits.
  void expect_right(const cuda::Device& gpu, cuda::Stream& stream, const W4A16Tactic& tactic,
                    int runs = 1, const std::string& arch = "") {
    SCOPED_TRACE(what_.name + ": " + to_string(problem()) + ", " + to_string(tactic) + " " + arch);
    const W4A16Kernel kernel = value_of(W4A16Kernel::make(gpu, problem(), tactic, arch));
    if (arch == "compute_80") expect_compute_80(gpu, kernel.kernel());
    compare(same_bytes_of(runs, [&] { return run_once(kernel, stream); }));
  }

 private:
  // What runs was made from PTX of compute_80, by the driver, for the GPU that is here.
  static void expect_compute_80(const cuda::Device& gpu, const cuda::Kernel& kernel) {
    EXPECT_EQ(kernel.ptx_version(), 80);
    EXPECT_EQ(kernel.binary_version(), 10 * gpu.info().major + gpu.info().minor);
    EXPECT_EQ(kernel.resources().stack_bytes, 0) << "it spills";
  }

  std::int64_t slots() const { return offsets_.back(); }
  bool gated() const { return what_.problem.mode != W4A16Mode::kPlain; }

  // Within what a product of random signs does not overflow.
  void narrow_scales() {
    for (std::uint8_t& scale : matrices_.scales) {
      scale = static_cast<std::uint8_t>(110 + scale % 11);
    }
  }

  void set_factors() {
    views_ = matrices_.views();
    for (std::size_t expert = 0; expert < views_.size(); ++expert) {
      const float factor = 0.001F * (1 + static_cast<float>(expert % 7));
      views_[expert].segments = {{0, factor}};
      if (gated()) views_[expert].segments.push_back({what_.problem.n / 2, factor * 1.5F});
    }
  }

  double weight(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    const auto& segments = views_[static_cast<std::size_t>(expert)].segments;
    const bool second = segments.size() > 1 && row >= segments[1].row_begin;
    return matrices_.value(expert, row, column) *
           static_cast<double>(segments[second ? 1 : 0].factor);
  }

  void make_tokens() {
    Random random(3);
    const W4A16Problem& problem = what_.problem;
    offsets_ = {0};
    for (const int count : what_.counts) offsets_.push_back(offsets_.back() + (count + 7) / 8 * 8);
    const std::int64_t chunks = chunks_of(problem.k);
    x_.assign(static_cast<std::size_t>(slots() * problem.k), 0);
    // NaN in all slots that hold no token; the columns beyond k are zero, as the kernels promise.
    tiles_.assign(static_cast<std::size_t>(slots() * chunks * kChunk), 0);
    for (std::int64_t slot = 0; slot < slots(); ++slot) {
      for (std::int64_t column = 0; column < problem.k; ++column) {
        const float value = (static_cast<float>(random.uniform()) * 2 - 1) * what_.scale;
        const std::uint16_t bits = half_bits(value, problem.activations);
        x_[static_cast<std::size_t>(slot * problem.k + column)] =
            half_value(bits, problem.activations);
        tiles_[static_cast<std::size_t>(slot_byte(slot, column, chunks) / 2)] =
            is_token(slot) ? bits : 0x7fff;
      }
      slot_weight_.push_back(is_token(slot) ? static_cast<float>(random.uniform()) + 0.1F : NAN);
    }
    if (problem.bias) {
      bias_.resize(static_cast<std::size_t>(problem.experts * problem.n));
      for (float& bias : bias_) bias = static_cast<float>(random.uniform()) - 0.5F;
    }
  }

  bool is_token(std::int64_t slot) const {
    for (std::size_t expert = 0; expert < what_.counts.size(); ++expert) {
      if (slot < offsets_[expert + 1]) return slot < offsets_[expert] + what_.counts[expert];
    }
    return false;
  }

  std::size_t output_bytes() const {
    const W4A16Problem& problem = what_.problem;
    if (gated()) {
      return static_cast<std::size_t>(slots() * chunks_of(problem.n / 2) * kSlotRowBytes);
    }
    return static_cast<std::size_t>(slots() * problem.n * bytes_of(problem.output));
  }

  // Everything that the kernel writes is NaN before.
  std::vector<std::byte> run_once(const W4A16Kernel& kernel, cuda::Stream& stream) {
    std::vector<int> tiles = {0};
    for (const int count : what_.counts) {
      tiles.push_back(tiles.back() + (count + kernel.tile_tokens() - 1) / kernel.tile_tokens());
    }
    const GpuArray<std::uint16_t> tokens(tiles_);
    const GpuArray<int> offsets(offsets_);
    const GpuArray<int> tile_table(tiles);
    const GpuArray<float> slot_weight(slot_weight_);
    const GpuArray<float> bias(bias_);
    const auto output = GpuArray<std::byte>::poisoned(output_bytes());
    const auto partials = GpuArray<float>::poisoned(kernel.partial_bytes() / sizeof(float));
    const GpuArray<std::uint32_t> flags(
        std::vector<std::uint32_t>(static_cast<std::size_t>(kernel.grid()), 0));
    const auto at = [](cuda::DevicePointer address) {
      return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    };
    check_ok(kernel.enqueue(
        stream,
        {.weights = static_cast<const std::uint8_t*>(at(weights_.tiles())),
         .alpha = static_cast<const float*>(at(weights_.alpha())),
         .bias = static_cast<const float*>(at(bias.address())),
         .tokens = static_cast<const std::uint8_t*>(at(tokens.address())),
         .offsets = static_cast<const int*>(at(offsets.address())),
         .tiles = static_cast<const int*>(at(tile_table.address())),
         .slot_weight = gated() ? nullptr : static_cast<const float*>(at(slot_weight.address())),
         .output = at(output.address()),
         .partials = static_cast<float*>(at(partials.address())),
         .flags = static_cast<std::uint32_t*>(at(flags.address())),
         .swiglu_alpha = 1.702F,
         .swiglu_limit = 7}));
    check_ok(stream.synchronize());
    std::vector<std::byte> bytes = output.read();
    clear_padding(bytes);
    return bytes;
  }

  // Rows of slots without a token may be anything.
  void clear_padding(std::vector<std::byte>& bytes) const {
    const W4A16Problem& problem = what_.problem;
    for (std::int64_t slot = 0; slot < slots(); ++slot) {
      if (is_token(slot)) continue;
      if (gated()) {
        for (std::int64_t column = 0; column < chunks_of(problem.n / 2) * kChunk; ++column) {
          const auto at =
              static_cast<std::size_t>(slot_byte(slot, column, chunks_of(problem.n / 2)));
          bytes[at] = bytes[at + 1] = std::byte{0};
        }
      } else {
        const auto row = static_cast<std::size_t>(problem.n * bytes_of(problem.output));
        std::memset(bytes.data() + static_cast<std::size_t>(slot) * row, 0, row);
      }
    }
  }

  double product(std::int64_t expert, std::int64_t row, const float* x) const {
    double sum = 0;
    for (std::int64_t column = 0; column < what_.problem.k; ++column) {
      sum += weight(expert, row, column) * static_cast<double>(x[column]);
    }
    if (what_.problem.bias) {
      sum += static_cast<double>(bias_[static_cast<std::size_t>(expert * what_.problem.n + row)]);
    }
    return sum;
  }

  double expected(std::int64_t expert, std::int64_t slot, std::int64_t column) const {
    const W4A16Problem& problem = what_.problem;
    const float* x = x_.data() + slot * problem.k;
    if (!gated()) {
      return product(expert, column, x) *
             static_cast<double>(slot_weight_[static_cast<std::size_t>(slot)]);
    }
    double gate = product(expert, column, x);
    double up = product(expert, problem.n / 2 + column, x);
    if (problem.mode == W4A16Mode::kSwiGlu) return gate / (1 + std::exp(-gate)) * up;
    gate = std::min(gate, 7.0);
    up = std::min(std::max(up, -7.0), 7.0);
    return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
  }

  double got(const std::vector<std::byte>& bytes, std::int64_t slot, std::int64_t column) const {
    const W4A16Problem& problem = what_.problem;
    if (!gated() && problem.output == Element::kFp32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + (slot * problem.n + column) * 4, 4);
      return static_cast<double>(value);
    }
    const std::int64_t at = gated() ? slot_byte(slot, column, chunks_of(problem.n / 2))
                                    : (slot * problem.n + column) * 2;
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, 2);
    return static_cast<double>(half_value(bits, gated() ? problem.activations : problem.output));
  }

  void compare(const std::vector<std::byte>& bytes) const {
    const std::int64_t columns = gated() ? what_.problem.n / 2 : what_.problem.n;
    double differences = 0;
    double references = 0;
    for (std::size_t expert = 0; expert < what_.counts.size(); ++expert) {
      for (int token = 0; token < what_.counts[expert]; ++token) {
        const std::int64_t slot = offsets_[expert] + token;
        for (std::int64_t column = 0; column < columns; ++column) {
          const double reference = expected(static_cast<std::int64_t>(expert), slot, column);
          const double difference = got(bytes, slot, column) - reference;
          differences += difference * difference;
          references += reference * reference;
        }
      }
    }
    if (references == 0) return;  // no tokens
    EXPECT_LE(std::sqrt(differences / references), kProductLimit);
    EXPECT_TRUE(std::isfinite(differences));
  }

  ProductCase what_;
  TestMatrices matrices_;
  std::vector<QuantizedMatrix> views_;
  TiledWeights weights_;
  std::vector<int> offsets_;
  std::vector<float> x_;  // [slots, k], rounded as the activations are
  std::vector<std::uint16_t> tiles_;
  std::vector<float> slot_weight_;
  std::vector<float> bias_;
};

}  // namespace nibble
