// What tests on a GPU share. Without one, or without a compiler for its kernels, they are skipped
// with the reason.
//
//   class CudaThing : public GpuTest {};
//   TEST_F(CudaThing, Works) { const GpuArray<float> x(values); ... x.read(); }
#pragma once

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda/compile.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kernels/gemm/device/prepack.h"

namespace nibble {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<cuda::Device> device = cuda::Device::open(0);
    if (!device.ok()) GTEST_SKIP() << device.error().message;
    device_.emplace(std::move(*device));
    // Programs that were compiled before run without a compiler.
    const auto compiler = cuda::compiler();
    if (!compiler.ok() && !compile_prepack(device_->info().arch()).ok()) {
      GTEST_SKIP() << compiler.error().message;
    }
    Result<cuda::Stream> stream = cuda::Stream::make();
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    stream_.emplace(std::move(*stream));
  }

  const cuda::Device& gpu() const { return *device_; }
  cuda::Stream& stream() { return *stream_; }

 private:
  std::optional<cuda::Device> device_;
  std::optional<cuda::Stream> stream_;
};

// The value, or a failed test.
template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void check_ok(const Result<>& result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
}

// An array in device memory.
template <class T>
class GpuArray {
 public:
  explicit GpuArray(const std::vector<T>& values)
      : size_(values.size()), buffer_(value_of(cuda::DeviceBuffer::of(values))) {}
  // Bytes of 0xff: -1, or what is not a number.
  static GpuArray poisoned(std::size_t size) {
    GpuArray array(std::vector<T>(size, T{}));
    check_ok(array.buffer_.fill(0xff));
    return array;
  }

  T* data() const { return reinterpret_cast<T*>(buffer_.address()); }
  cuda::DevicePointer address() const { return buffer_.address(); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check_ok(buffer_.download(std::as_writable_bytes(std::span(values))));
    return values;
  }
  void write(const std::vector<T>& values) {
    check_ok(buffer_.upload(std::as_bytes(std::span(values))));
  }

 private:
  std::size_t size_;
  cuda::DeviceBuffer buffer_;
};

}  // namespace nibble
