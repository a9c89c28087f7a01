// Memory for weights and activations: zeroed, aligned to a huge page, in huge pages where the
// kernel grants them (page walks would cost a fifth of the read bandwidth).
//
//   NIBBLE_ASSIGN_OR_RETURN(HugeBuffer buffer, HugeBuffer::allocate(bytes));
//   std::span<std::byte> all = buffer.bytes();
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace nibble {

class HugeBuffer {
 public:
  HugeBuffer() = default;
  // A run error when the machine has not that much memory; 0 bytes give an empty buffer.
  static Result<HugeBuffer> allocate(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nibble
