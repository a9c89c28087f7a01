// One 4-bit matrix [n, k] that every token meets as a rig, whatever its activations: what W4A16 and
// W4A4 have in common. Derived rigs make the tokens and launch the kernel.
//
//   class DenseRig : public CudaDenseFrame<TiledWeights, W4A16Kernel> { ... };
//   NIBBLE_RETURN_IF_ERROR(make_weights(factor));                     // copies for a cold ring
//   NIBBLE_RETURN_IF_ERROR(choose_kernel(dense_problem(shape_), tokens, fallback));
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bench/cuda_rig.h"
#include "bench/cuda_tactics.h"
#include "bench/gemm_check.h"
#include "bench/tune_shapes.h"
#include "kernels/gemm/device/prepack.h"

namespace nibble {

template <class Weights, class Kernel>
class CudaDenseFrame : public CudaRig {
 public:
  CudaDenseFrame(const BenchShape& shape, const CudaSetup& setup) : shape_(shape), setup_(setup) {}

  // 64 rows of the matrix at the first and at the last token.
  Result<> check(cuda::Stream& stream) override {
    if (const Result<CudaWork> drawn = draw(stream); !drawn.ok()) return drawn.error();
    NIBBLE_RETURN_IF_ERROR(enqueue(0, stream));
    NIBBLE_RETURN_IF_ERROR(stream.synchronize());
    return check_tokens({0, tokens_ - 1});
  }

  int copies() const override { return static_cast<int>(weights_.size()); }

  // Flags of a split product are cleared by whoever comes before it.
  Result<CudaWork> draw(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(flags_.fill(0, stream));
    return dense_work(shape_, tokens_);
  }

  double ring_bytes() const override {
    return static_cast<double>(weights_.front().bytes() * weights_.size());
  }
  std::string tactic() const override {
    return kernel_ ? to_string(kernel_->tactic()) : std::string();
  }

 protected:
  // Of the last run, against double precision.
  virtual Result<> check_tokens(const std::vector<std::int64_t>& tokens) const = 0;

  Result<> make_weights(float factor) {
    const double bytes =
        storage_bytes(shape_.format, static_cast<double>(shape_.n), static_cast<double>(shape_.k))
            .total();
    NIBBLE_ASSIGN_OR_RETURN(const double free_bytes, setup_.gpu.free_memory_bytes());
    if (bytes > free_bytes / 2) {
      return run_error("the weights take {}, more than half of the {} of free memory",
                       format_bytes(bytes), format_bytes(free_bytes));
    }
    const int copies =
        copies_for(bytes, bytes, setup_.gpu.info().l2_bytes, free_bytes, setup_.cold);
    const TiledShape tiles{.format = shape_.format,
                           .experts = 1,
                           .rows = shape_.n,
                           .columns = shape_.k,
                           .order = RowOrder::kPlain};
    for (int copy = 0; copy < copies; ++copy) {
      NIBBLE_ASSIGN_OR_RETURN(Weights weights,
                              Weights::random(setup_.gpu, tiles, factor,
                                              setup_.seed + static_cast<std::uint64_t>(copy)));
      weights_.push_back(std::move(weights));
    }
    return {};
  }

  template <class Problem, class Tactic>
  Result<> choose_kernel(const Problem& problem, std::int64_t tokens, const Tactic& fallback) {
    tokens_ = tokens;
    const Tactic tactic = tuned_or_default(setup_.tuning, tuning_shape(shape_), tokens, problem,
                                           setup_.gpu.info(), fallback);
    kernel_.reset();
    NIBBLE_RETURN_IF_ERROR(check_choices(problem, tactic, tokens));
    NIBBLE_ASSIGN_OR_RETURN(Kernel kernel, Kernel::make(setup_.gpu, problem, tactic));
    kernel_.emplace(std::move(kernel));
    return {};
  }

  Result<> make_split_buffers() {
    NIBBLE_ASSIGN_OR_RETURN(
        partials_, cuda::DeviceBuffer::make(std::max<std::size_t>(16, kernel_->partial_bytes())));
    NIBBLE_ASSIGN_OR_RETURN(
        flags_, cuda::DeviceBuffer::make(std::max<std::size_t>(
                    16, static_cast<std::size_t>(kernel_->grid()) * sizeof(std::uint32_t))));
    return {};
  }

  static Result<> check_error(const ProductCheck& product, std::int64_t token,
                              std::string_view arithmetic) {
    constexpr double kLimit = 4e-3;  // a rounding to 16 bits, and sums of another order
    const double error = product_error(product);
    if (error <= kLimit) return {};
    return run_error(
        "the product is wrong: token {}: relative error {} against {}, at most {} is right", token,
        format_number(error), arithmetic, format_number(kLimit));
  }

  BenchShape shape_;
  CudaSetup setup_;
  std::vector<Weights> weights_;
  std::optional<Kernel> kernel_;
  std::int64_t tokens_ = 0;
  cuda::DeviceBuffer output_, partials_, flags_;
};

}  // namespace nibble
