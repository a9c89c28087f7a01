// Memory of a GPU and pinned memory of the host, as move-only owners.
//
//   NIBBLE_ASSIGN_OR_RETURN(DeviceBuffer weights, DeviceBuffer::make(bytes));
//   NIBBLE_RETURN_IF_ERROR(weights.upload(std::as_bytes(std::span(host))));
//   NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> back, weights.read<float>());
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "cuda/owned.h"
#include "cuda/stream.h"

namespace nibble::cuda {

// Pinned: copies to and from it need no staging, and run beside other work of their stream.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> make(std::size_t bytes);
  PinnedBuffer() = default;  // empty

  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data(), size_}; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }
  template <class T>
  std::span<T> as() {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data()), size_ / sizeof(T)};
  }

 private:
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }

  Owned<void*, &abi::Functions::MemFreeHost> memory_;
  std::size_t size_ = 0;
};

// Memory of the GPU that was current when it was made, aligned to 256 bytes, with unset content.
// Without a stream a transfer is for set-up and tests: it waits for all work of the GPU before it
// begins, and is over when it returns. With a stream it is one more piece of the stream's work.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> make(std::size_t bytes);
  template <class T>
  static Result<DeviceBuffer> of(std::span<const T> values);  // holds a copy of them
  template <class T>
  static Result<DeviceBuffer> of(const std::vector<T>& values) {
    return of(std::span<const T>(values));
  }
  DeviceBuffer() = default;  // empty

  DevicePointer address() const { return memory_.get(); }  // 0 for an empty buffer
  std::size_t size() const { return size_; }               // bytes

  // At byte `offset` of the buffer; what does not fit is refused.
  Result<> upload(std::span<const std::byte> from, std::size_t offset = 0);
  Result<> download(std::span<std::byte> to, std::size_t offset = 0) const;
  Result<> fill(std::uint8_t value);
  template <class T>
  Result<std::vector<T>> read() const;  // all whole values that it holds

  Result<> upload(const PinnedBuffer& from, Stream& stream);
  Result<> download(PinnedBuffer& to, Stream& stream) const;
  Result<> fill(std::uint8_t value, Stream& stream);
  Result<> copy(const DeviceBuffer& from, Stream& stream);  // all of `from`, to our beginning

 private:
  Result<> fits(std::size_t offset, std::size_t bytes, std::string_view what) const;

  Owned<DevicePointer, &abi::Functions::MemFree> memory_;
  std::size_t size_ = 0;
};

template <class T>
Result<DeviceBuffer> DeviceBuffer::of(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  NIBBLE_ASSIGN_OR_RETURN(DeviceBuffer buffer, make(values.size_bytes()));
  NIBBLE_RETURN_IF_ERROR(buffer.upload(std::as_bytes(values)));
  return buffer;
}

template <class T>
Result<std::vector<T>> DeviceBuffer::read() const {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(size_ / sizeof(T));
  NIBBLE_RETURN_IF_ERROR(download(std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace nibble::cuda
