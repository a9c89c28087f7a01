#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "bench/cuda_rig.h"

namespace nibble {
namespace {

constexpr double kOutputBytes = 2;

std::size_t bytes_of(double values, LtFormat format) {
  constexpr double kAlignment = 256;
  return static_cast<std::size_t>(std::ceil(values * bytes_per_value(format) / kAlignment) *
                                  kAlignment);
}

Filling filling_of(LtFormat format) {
  switch (format) {
    case LtFormat::kBf16:
      return Filling::kBf16;
    case LtFormat::kFp16:
      return Filling::kFp16;
    case LtFormat::kFp8:
      return Filling::kFp8;
    case LtFormat::kFp4:
      break;
  }
  return Filling::kBits;
}

class CublasltRig : public CudaRig {
 public:
  CublasltRig(const BenchShape& shape, LtFormat format, const CudaSetup& setup,
              const Cublaslt& library)
      : shape_(shape), format_(format), setup_(setup), library_(library) {}

  Result<> make() {
    const double values = static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
    weight_bytes_ = bytes_of(values, format_);
    NIBBLE_ASSIGN_OR_RETURN(const double free_bytes, setup_.gpu.free_memory_bytes());
    const double bytes = static_cast<double>(weight_bytes_);
    if (bytes > free_bytes / 2) {
      return run_error("the weights take {}, more than half of the {} of free memory",
                       format_bytes(bytes), format_bytes(free_bytes));
    }
    copies_ = copies_for(bytes, bytes, setup_.gpu.info().l2_bytes, free_bytes, setup_.cold);
    NIBBLE_ASSIGN_OR_RETURN(
        weights_, cuda::DeviceBuffer::make(weight_bytes_ * static_cast<std::size_t>(copies_)));
    return fill(weights_, 1);
  }

  Result<> set_tokens(std::int64_t tokens) override {
    tokens_ = tokens;
    const double m = static_cast<double>(tokens);
    NIBBLE_ASSIGN_OR_RETURN(activations_, cuda::DeviceBuffer::make(bytes_of(
                                              m * static_cast<double>(shape_.k), format_)));
    NIBBLE_ASSIGN_OR_RETURN(output_, cuda::DeviceBuffer::make(static_cast<std::size_t>(
                                         m * static_cast<double>(shape_.n) * kOutputBytes)));
    NIBBLE_RETURN_IF_ERROR(fill(activations_, 2));
    product_.reset();
    NIBBLE_ASSIGN_OR_RETURN(
        LtProduct product,
        LtProduct::make(library_, {.format = format_, .m = tokens, .n = shape_.n, .k = shape_.k}));
    product_.emplace(std::move(product));
    return {};
  }

  // What others built is taken as right; that it runs is seen here.
  Result<> check(cuda::Stream& stream) override {
    NIBBLE_RETURN_IF_ERROR(enqueue(0, stream));
    return stream.synchronize();
  }

  int copies() const override { return copies_; }
  Result<CudaWork> draw(cuda::Stream&) override { return lt_work(shape_, format_, tokens_); }

  Result<> enqueue(int copy, cuda::Stream& stream) override {
    return product_->enqueue(
        {.weights = weights_.address() + static_cast<std::uint64_t>(copy) * weight_bytes_,
         .activations = activations_.address(),
         .output = output_.address()},
        stream);
  }

  double ring_bytes() const override { return static_cast<double>(weights_.size()); }
  std::string kernel() const override {
    return fmt::format("cuBLASLt {} {}", library_.version(), to_string(format_));
  }

 private:
  Result<> fill(cuda::DeviceBuffer& buffer, int seed) {
    NIBBLE_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::make());
    NIBBLE_RETURN_IF_ERROR(setup_.probes.fill(
        buffer,
        {.seed = static_cast<int64_t>(setup_.seed) * 16 + seed, .filling = filling_of(format_)},
        stream));
    return stream.synchronize();
  }

  BenchShape shape_;
  LtFormat format_;
  CudaSetup setup_;
  const Cublaslt& library_;
  std::size_t weight_bytes_ = 0;
  int copies_ = 1;
  std::int64_t tokens_ = 0;
  cuda::DeviceBuffer weights_;
  cuda::DeviceBuffer activations_;
  cuda::DeviceBuffer output_;
  std::optional<LtProduct> product_;
};

}  // namespace

int copies_for(double bytes_of_run, double bytes_of_copy, double l2_bytes, double free_bytes,
               bool cold) {
  constexpr double kCaches = 4;
  constexpr double kMostCopies = 256;
  if (!cold || !(bytes_of_run > 0) || !(bytes_of_copy > 0)) return 1;
  const double wanted = std::ceil(kCaches * l2_bytes / bytes_of_run) + 1;
  const double room = std::floor(free_bytes / 2 / bytes_of_copy);
  return static_cast<int>(std::clamp(std::min(wanted, room), 1.0, kMostCopies));
}

CudaWork lt_work(const BenchShape& shape, LtFormat format, std::int64_t tokens) {
  constexpr double kGroup = 16;  // values that share a scale byte
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double m = static_cast<double>(tokens);
  const double value = bytes_per_value(format) + (format == LtFormat::kFp4 ? 1 / kGroup : 0);
  return {.weight_bytes = n * k * value,
          .activation_bytes = m * k * value + m * n * kOutputBytes,
          .flop = 2 * m * n * k,
          .distinct = 1,
          .slots = m};
}

Result<std::unique_ptr<CudaRig>> make_cublaslt_rig(const BenchShape& shape, LtFormat format,
                                                   const CudaSetup& setup) {
  const int major = setup.gpu.info().major;
  const int minor = setup.gpu.info().minor;
  if (format == LtFormat::kFp4 && major < 10) {
    return run_error("{} has no FP4 unit", setup.gpu.info().name);
  }
  if (format == LtFormat::kFp8 && (major < 8 || (major == 8 && minor < 9))) {
    return run_error("{} has no FP8 unit", setup.gpu.info().name);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Cublaslt* library, Cublaslt::get());
  auto rig = std::make_unique<CublasltRig>(shape, format, setup, *library);
  NIBBLE_RETURN_IF_ERROR(rig->make());
  return std::unique_ptr<CudaRig>(std::move(rig));
}

}  // namespace nibble
